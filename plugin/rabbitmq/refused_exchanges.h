// Exchanges that the broker has just refused, and why. We do not try them again at once: each time, the
// broker would close the channel, and everything unconfirmed on it, for other targets too, would be sent
// again or be in doubt. Thread: one thread per object.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/core/time.h"

namespace rung::rabbit {

class RefusedExchanges {
 public:
  bool empty() const { return refusals_.empty(); }
  void add(const std::string& exchange, std::string why, BootMs now) {
    if (refusals_.size() >= kMost) refusals_.clear();
    refusals_[exchange] = {std::move(why), now + kRememberFor};
  }
  // Why the exchange cannot be used now; nullptr if it can be tried. Valid until the next call.
  const std::string* reason(const std::string& exchange, BootMs now) {
    const auto known = refusals_.find(exchange);
    if (known == refusals_.end()) return nullptr;
    if (now < known->second.until) return &known->second.why;
    refusals_.erase(known);
    return nullptr;
  }
  std::size_t size() const { return refusals_.size(); }
  static constexpr std::size_t kMost = 1000;  // names come from messages

 private:
  static constexpr Ms kRememberFor{1000};
  struct Refusal {
    std::string why;
    BootMs until;
  };
  std::unordered_map<std::string, Refusal> refusals_;
};

}  // namespace rung::rabbit
