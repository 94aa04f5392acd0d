// Counts dead letters of publishes that a full queue refused: the broker answers with a nack, the attempt is
// taken back, and a queue with x-overflow reject-publish-dlx dead-letters the message all the same. No
// consumer has seen it, and its task is published again, so it is acked without a change. Each is logged, and
// the first of each queue is recorded as an event. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "src/core/ids.h"
#include "src/store/system.h"

namespace rung::bridge {

class RefusedPublishes {
 public:
  static constexpr std::size_t kMostQueues = 1000;  // that are remembered as told

  explicit RefusedPublishes(std::function<void(SystemEvent)> record) : record_(std::move(record)) {}

  void dead_lettered(TaskId id, int attempt, const std::string& queue);
  std::int64_t count() const { return count_; }  // since the start

 private:
  const std::function<void(SystemEvent)> record_;
  std::set<std::string, std::less<>> told_;
  std::int64_t count_ = 0;
};

}  // namespace rung::bridge
