// Logs exchanges and queues where messages can't be published, at most one line a minute per name. Bounded,
// because names come from messages. Thread: the loop's.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "src/core/clock.h"
#include "src/io/log.h"

namespace rung::bridge {

class RouteLog {
 public:
  explicit RouteLog(const Clock& clock) : clock_(clock) {}

  void exchange_refused(const std::string& exchange, const std::string& reason) {
    if (due(exchange))
      log::warn("exchange refuses messages: their attempts fail",
                {{"exchange", exchange}, {"reason", reason}});
  }
  // Once for each queue.
  void routing_key_lost(const std::string& queue, const std::string& reason) {
    if (queues_.size() >= kMostQueues || !queues_.insert(queue).second) return;
    log::warn("retries to a queue lose their routing key: binding refused",
              {{"queue", queue}, {"reason", reason}});
  }
  // Names that are remembered.
  std::size_t size() const { return said_.size() + queues_.size(); }
  static constexpr std::size_t kMostExchanges = 1000, kMostQueues = 10'000;

 private:
  bool due(const std::string& name) {
    constexpr Ms kEvery{60'000};
    const BootMs now = clock_.boot();
    const auto known = said_.find(name);
    if (known != said_.end() && now - known->second < kEvery) return false;
    if (said_.size() >= kMostExchanges) said_.clear();
    said_[name] = now;
    return true;
  }

  const Clock& clock_;
  std::unordered_map<std::string, BootMs> said_;
  std::unordered_set<std::string> queues_;
};

}  // namespace rung::bridge
