// Publishes to <prefix>.return, which keeps the message's original routing key (Outgoing::queue). The header
// BCC names the target queue by its binding key "queue:<name>". The publishers for unproven exchanges and for
// probes bind the queue on first use. If the broker refuses, the message goes through the default exchange
// and loses the routing key; if it does not answer, the message waits. Thread: pure functions;
// bind_target_queue() is its caller's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {

inline constexpr std::string_view kBcc = "BCC";
inline constexpr std::string_view kBindingPrefix = "queue:";
inline std::string binding_key(const std::string& queue) { return std::string(kBindingPrefix) + queue; }

// The direct exchange that lets a retry keep its routing key; it has no queue of its own.
inline std::string return_exchange(const std::string& prefix) { return prefix + ".return"; }

// Implements Outgoing::queue in RabbitMQ: with the return exchange, as long as it stays set. Uses the default
// exchange if the queue's name is too long for a binding key (255 bytes), or if the routing key looks like a
// binding key and would also reach that queue.
inline void route_to_queue(Outgoing& outgoing, const std::string& return_exchange) {
  if (outgoing.queue.empty()) return;
  if (outgoing.queue.size() > kShortMost - kBindingPrefix.size() ||
      outgoing.routing_key.starts_with(kBindingPrefix)) {
    outgoing.routing_key = std::exchange(outgoing.queue, {});
    return;
  }
  outgoing.exchange = return_exchange;
  if (!outgoing.message.headers) outgoing.message.headers.emplace();
  outgoing.message.headers->emplace_back(kBcc, Array{Value{binding_key(outgoing.queue)}});
}

// Reroutes the same message through the default exchange.
inline void use_default_exchange(Outgoing& outgoing) {
  outgoing.exchange.clear();
  outgoing.routing_key = std::exchange(outgoing.queue, {});
  std::erase_if(*outgoing.message.headers, [](const auto& header) { return header.first == kBcc; });
}

// With itself as its alternate exchange. No policy can then set another one, to which a retry without a
// binding would go, and count as delivered.
inline Result<void> declare_exchange(const std::string& return_exchange, const Calls& calls) {
  return calls.exchange_with_alternate(return_exchange, kDirect, return_exchange);
}

// Declares the exchange and binds the queue. If the broker refuses, the channel is closed and closing() of
// the connection says why.
inline Result<void> bind_target_queue(const std::string& return_exchange, const std::string& queue,
                                      const Calls& calls) {
  if (auto declared = declare_exchange(return_exchange, calls); !declared) return declared;
  return calls.bind(queue, return_exchange, binding_key(queue));
}

}  // namespace rung::rabbit
