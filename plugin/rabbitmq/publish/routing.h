// Chooses the publisher and the exchange for a message.
//
// Unproven exchanges: a publish to an exchange that has not yet answered on the current connection goes to
// Role::unproven, which sends one message at a time. A refusal there affects nobody else.
//
// Bindings: a message through <prefix>.return needs the binding of its queue, which Role::unproven and
// Role::probe create. If the broker refuses it, the message goes through the default exchange.
//
// Thread: one thread per object. All publishers of a broker share the ProvenExchanges.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "plugin/broker.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// Exchanges that have answered a publish on the current connection. A publish to any other exchange first
// goes over a separate connection, because a refusal closes its channel. The default exchange is always
// proven; it is not stored here. Thread: any.
class ProvenExchanges {
 public:
  // REQUIRES: `clock` outlives it.
  explicit ProvenExchanges(const Clock& clock) : clock_(clock) {}

  bool contains(const std::string& exchange) const {
    if (exchange.empty()) return true;
    const std::lock_guard lock(mutex_);
    return names_.contains(exchange);
  }
  void add(const std::string& exchange) {
    const std::lock_guard lock(mutex_);
    if (names_.size() >= kMost) names_.clear();  // names come from messages
    names_.insert(exchange);
  }
  void remove(const std::string& exchange) {
    const std::lock_guard lock(mutex_);
    names_.erase(exchange);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    names_.clear();
    refused_.clear();
    largest_.store(kSmall, std::memory_order_relaxed);
    no_helper_.store(false, std::memory_order_relaxed);
  }

  // Bodies up to this size are known to be within the broker's limit (max_message_size), which can be any:
  // a message beyond it closes its channel.
  bool fits(std::size_t bytes) const { return bytes <= largest_.load(std::memory_order_relaxed); }
  void set_fits(std::size_t bytes) {
    if (!fits(bytes)) largest_.store(bytes, std::memory_order_relaxed);
  }

  // The broker allows no further connection: there is no other channel to try a message on.
  bool no_helper() const { return no_helper_.load(std::memory_order_relaxed); }
  void set_no_helper(bool none) { no_helper_.store(none, std::memory_order_relaxed); }

  // Why the broker refused an exchange ("exchange:<name>"), or to bind a queue (by its binding key) to
  // <prefix>.return. It is not tried again for so long: each time, the broker closes the channel, and
  // everything unconfirmed on it is sent again or in doubt. By then the right may have been granted.
  void refuse(const std::string& name, std::string why, Ms pause) {
    const std::lock_guard lock(mutex_);
    if (refused_.size() >= kMost) refused_.clear();
    refused_[name] = {std::move(why), clock_.boot() + pause};
  }
  std::optional<std::string> refusal(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto known = refused_.find(name);
    if (known == refused_.end() || clock_.boot() >= known->second.until) return std::nullopt;
    return known->second.why;
  }
  static constexpr Ms kExchangePause{1000}, kBindingPause{60'000};
  // Names that are remembered, of both kinds.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return names_.size() + refused_.size();
  }
  static constexpr std::size_t kMost = 10'000;  // of each kind; then all are proven anew

 private:
  // Limits below it are not in use: RabbitMQ's default is 16 or 128 MiB.
  static constexpr std::size_t kSmall = std::size_t{1024} * 1024;
  struct Refusal {
    std::string why;
    BootMs until;
  };
  const Clock& clock_;
  std::atomic<std::size_t> largest_{kSmall};
  std::atomic<bool> no_helper_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_. Exchanges, and binding keys "queue:<name>" of <prefix>.return. Mixing them up does no
  // harm: an exchange with such a name would only skip its proof.
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, Refusal> refused_;
};

// main: proven exchanges only. unproven: all others, one message at a time. probe: any.
enum class Role : std::uint8_t { main, unproven, probe };

class Routing {
 public:
  // REQUIRES: `proven` outlives it.
  Routing(Role role, ProvenExchanges& proven) : role_(role), proven_(proven) {}

  Role role() const { return role_; }
  ProvenExchanges& proven() const { return proven_; }

  // What must be proven before Role::main may publish it: its exchange, or the binding of its queue.
  static std::string proof_of(const Outgoing& outgoing) {
    return outgoing.queue.empty() ? outgoing.exchange : binding_key(outgoing.queue);
  }

  // True if the message belongs to the other one of main and unproven.
  bool belongs_to_other(const Outgoing& outgoing) const {
    if (role_ == Role::probe) return false;
    const std::string proof = proof_of(outgoing);
    const bool by_main = (proven_.contains(proof) || (!outgoing.queue.empty() && proven_.refusal(proof))) &&
                         !may_be_refused(outgoing);
    return by_main != (role_ == Role::main);
  }

  // Uses the default exchange if the broker refuses to bind the queue. Returns why; "" = not needed.
  std::string choose_exchange(Outgoing& outgoing) const {
    if (outgoing.queue.empty()) return {};
    auto why = proven_.refusal(binding_key(outgoing.queue));
    if (!why) return {};
    use_default_exchange(outgoing);
    return *std::move(why);
  }

  // Whether its queue is to be bound before it is published.
  bool needs_binding(const Outgoing& outgoing) const {
    return role_ != Role::main && !outgoing.queue.empty() && !proven_.contains(binding_key(outgoing.queue));
  }
  // The broker refuses to bind its queue.
  void refuse_binding(const Outgoing& outgoing, const std::string& why) const {
    proven_.refuse(binding_key(outgoing.queue), why, ProvenExchanges::kBindingPause);
  }

  // The broker has just refused the message's exchange. The default one is refused by rights alone, and topic
  // permissions depend on the routing key.
  void refuse(const Outgoing& outgoing, const std::string& why) const {
    if (outgoing.exchange.empty() || why.find("access to topic '") != std::string::npos) return;
    proven_.refuse("exchange:" + outgoing.exchange, why, ProvenExchanges::kExchangePause);
  }
  // Why the message's exchange cannot be used now.
  std::optional<std::string> refusal_of(const Outgoing& outgoing) const {
    if (outgoing.exchange.empty() || !outgoing.queue.empty()) return std::nullopt;
    return proven_.refusal("exchange:" + outgoing.exchange);
  }

  // Role::unproven sends one message at a time. Any answer to it proves that its exchange lets us publish.
  void sending(const Outgoing& outgoing) {
    if (role_ != Role::unproven) return;
    last_proof_ = proof_of(outgoing);
    last_bytes_ = outgoing.message.body.size();
  }
  void answered() {
    if (role_ != Role::unproven) return;
    proven_.add(last_proof_);
    proven_.set_fits(last_bytes_);
  }

 private:
  // Whether the broker may close the channel because of the message itself. Role::unproven sends it alone, so
  // that no other publish has to be repeated. A delayed-message exchange refuses an x-delay that is no
  // number.
  bool may_be_refused(const Outgoing& outgoing) const {
    if (proven_.no_helper()) return false;
    if (!proven_.fits(outgoing.message.body.size())) return true;
    if (outgoing.exchange.empty() || !outgoing.queue.empty()) return false;
    const Value* delay = find(outgoing.message.headers, kDelayHeader);
    return delay != nullptr && !delay->as_int();
  }

  const Role role_;
  ProvenExchanges& proven_;
  std::string last_proof_;      // Role::unproven: of the last message sent
  std::size_t last_bytes_ = 0;  // the same
};

}  // namespace rung::rabbit
