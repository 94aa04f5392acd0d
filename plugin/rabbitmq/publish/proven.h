// Exchanges that have answered a publish on the current connection. A publish to any other exchange first
// goes over a separate connection, because a refusal closes its channel. The default exchange is always
// proven; it is not stored here. Thread: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "plugin/rabbitmq/topology/return_route.h"
#include "src/core/base/clock.h"

namespace rung::rabbit {

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
    unbindable_.clear();
    largest_.store(kSmall, std::memory_order_relaxed);
    no_helper_.store(false, std::memory_order_relaxed);
  }

  // How <prefix>.return was declared, as far as is known.
  ReturnExchange return_exchange() const { return return_exchange_.load(std::memory_order_relaxed); }
  void set_return_exchange(ReturnExchange as) { return_exchange_.store(as, std::memory_order_relaxed); }

  // Bodies up to this size are known to be within the broker's limit (max_message_size), which can be any:
  // a message beyond it closes its channel.
  bool fits(std::size_t bytes) const { return bytes <= largest_.load(std::memory_order_relaxed); }
  void set_fits(std::size_t bytes) {
    if (!fits(bytes)) largest_.store(bytes, std::memory_order_relaxed);
  }

  // The broker allows no further connection: there is no other channel to try a message on.
  bool no_helper() const { return no_helper_.load(std::memory_order_relaxed); }
  void set_no_helper() { no_helper_.store(true, std::memory_order_relaxed); }

  // Queues, by binding key, that cannot be bound to <prefix>.return, and why. Retried after kAgain: the right
  // may have been granted since.
  void set_unbindable(const std::string& binding_key, std::string why) {
    const std::lock_guard lock(mutex_);
    if (unbindable_.size() >= kMost) unbindable_.clear();
    unbindable_[binding_key] = {std::move(why), clock_.boot() + kAgain};
  }
  std::optional<std::string> unbindable(const std::string& binding_key) const {
    const std::lock_guard lock(mutex_);
    const auto known = unbindable_.find(binding_key);
    if (known == unbindable_.end() || clock_.boot() > known->second.until) return std::nullopt;
    return known->second.why;
  }
  // Names that are remembered, of both kinds.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return names_.size() + unbindable_.size();
  }
  static constexpr std::size_t kMost = 10'000;  // of each kind; then all are proven anew

 private:
  // Limits below it are not in use: RabbitMQ's default is 16 or 128 MiB.
  static constexpr std::size_t kSmall = std::size_t{1024} * 1024;
  static constexpr Ms kAgain{60'000};
  struct Unbindable {
    std::string why;
    BootMs until;
  };
  const Clock& clock_;
  std::atomic<ReturnExchange> return_exchange_{ReturnExchange::own};
  std::atomic<std::size_t> largest_{kSmall};
  std::atomic<bool> no_helper_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_. Exchanges, and binding keys "queue:<name>" of <prefix>.return. Mixing them up does no
  // harm: an exchange with such a name would only skip its proof.
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, Unbindable> unbindable_;
};

}  // namespace rung::rabbit
