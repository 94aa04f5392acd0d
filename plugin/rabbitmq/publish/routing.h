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

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "plugin/broker.h"
#include "plugin/rabbitmq/publish/proven.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "plugin/rabbitmq/wire/broker_headers.h"

namespace rung::rabbit {

// main: proven exchanges only. unproven: all others, one message at a time. probe: any.
enum class Role : std::uint8_t { main, unproven, probe };

class Routing {
 public:
  // REQUIRES: `proven` outlives it.
  Routing(Role role, ProvenExchanges& proven, std::string return_exchange)
      : role_(role), proven_(proven), return_exchange_(std::move(return_exchange)) {}

  Role role() const { return role_; }
  ProvenExchanges& proven() const { return proven_; }
  const std::string& return_exchange() const { return return_exchange_; }

  // Binding key of the target queue; "" if the message does not use <prefix>.return.
  std::string key_of(const Outgoing& outgoing) const { return binding_key(outgoing, return_exchange_); }

  // What must be proven before Role::main may publish it: its exchange, or the binding of its queue.
  std::string proof_of(const Outgoing& outgoing) const {
    std::string key = key_of(outgoing);
    return key.empty() ? outgoing.exchange : key;
  }

  // True if the message belongs to the other one of main and unproven.
  bool belongs_to_other(const Outgoing& outgoing) const {
    if (role_ == Role::probe) return false;
    const std::string key = key_of(outgoing);
    const bool by_main =
        (proven_.contains(proof_of(outgoing)) || (!key.empty() && proven_.unbindable(key))) &&
        !may_be_refused(outgoing, key);
    return by_main != (role_ == Role::main);
  }

  // Uses the default exchange if the broker refuses to bind the queue. Returns why; "" = not needed.
  std::string choose_exchange(Outgoing& outgoing) const {
    const std::string key = key_of(outgoing);
    if (key.empty()) return {};
    auto why = proven_.unbindable(key);
    if (!why) return {};
    use_default_exchange(outgoing, key);
    return *std::move(why);
  }

  // The binding key to bind before publishing; "" = none.
  std::string binding_needed(const Outgoing& outgoing) const {
    if (role_ == Role::main) return {};
    std::string key = key_of(outgoing);
    if (!key.empty() && proven_.contains(key)) key.clear();
    return key;
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
  bool may_be_refused(const Outgoing& outgoing, const std::string& key) const {
    if (proven_.no_helper()) return false;
    if (!proven_.fits(outgoing.message.body.size())) return true;
    if (outgoing.exchange.empty() || !key.empty()) return false;
    const Value* delay = find(outgoing.message.headers, kDelayHeader);
    return delay != nullptr && !delay->as_int();
  }

  const Role role_;
  ProvenExchanges& proven_;
  const std::string return_exchange_;
  std::string last_proof_;      // Role::unproven: of the last message sent
  std::size_t last_bytes_ = 0;  // the same
};

}  // namespace rung::rabbit
