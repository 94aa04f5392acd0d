// Logs exchanges and queues where messages can't be published, at most one line a minute per name. Bounded,
// because names come from messages. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/once_per_name.h"
#include "src/core/base/clock.h"
#include "src/core/base/ids.h"
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
    if (!queues_.is_news(queue)) return;
    log::warn("retries to a queue lose their routing key: binding refused",
              {{"queue", queue}, {"reason", reason}});
  }
  // Exchanges that are remembered.
  std::size_t size() const { return said_.size(); }
  static constexpr std::size_t kMostExchanges = 1000;

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
  OncePerName queues_;
};

// Counts dead letters of publishes that a full queue refused: the broker answers with a nack, the attempt is
// taken back, and a queue with x-overflow reject-publish-dlx dead-letters the message all the same. No
// consumer has seen it, and its task is published again, so it is acked without a change. Each is logged, and
// the first of each queue is recorded as an event. Thread: the loop's.
class RefusedPublishes {
 public:
  explicit RefusedPublishes(RecordEvent record) : record_(std::move(record)) {}

  void dead_lettered(TaskId id, int attempt, const std::string& queue);
  std::int64_t count() const { return count_; }  // since the start

 private:
  const RecordEvent record_;
  OncePerName told_;
  std::int64_t count_ = 0;
};

}  // namespace rung::bridge
