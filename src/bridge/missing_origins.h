// Failures that a consumer published to <prefix>.failed without saying which exchange and routing key the
// message came by: its retries get the queue's name as routing key, and nothing knows the original one any
// more. Says so once for each queue, in the log and as an event. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "src/core/task.h"
#include "src/store/system.h"

namespace rung::bridge {

class MissingOrigins {
 public:
  // Names of queues come from messages: later queues are only counted.
  static constexpr std::size_t kMostQueues = 1000;

  MissingOrigins(const std::string& prefix, std::function<void(SystemEvent)> record)
      : failed_(prefix + ".failed"), record_(std::move(record)) {}

  // A new row.
  void inserted(const Task& task);

  std::int64_t count() const { return count_; }  // since the start

 private:
  const std::string failed_;  // the exchange
  const std::function<void(SystemEvent)> record_;
  std::set<std::string> said_;  // queues
  std::int64_t count_ = 0;
};

}  // namespace rung::bridge
