#include "src/bridge/missing_origins.h"

#include "src/io/log.h"

namespace rung::bridge {

void MissingOrigins::inserted(const Task& task) {
  const bool published_here =
      task.kind == Kind::retry && task.exchange == failed_ && task.error_queue.empty();
  if (!published_here || task.queue.empty()) return;
  ++count_;
  if (said_.size() >= kMostQueues || !said_.insert(task.queue).second) return;
  log::warn("a failure came without its origin: its retries lose the routing key", {{"queue", task.queue}});
  record_(
      {0,
       {},
       "",
       "origin_missing",
       task.queue,
       "a consumer published a failure to " + failed_ +
           " without retry-origin-exchange and retry-origin-routing-key: its retries have the queue's name "
           "as routing key (docs/operations.md)"});
}

}  // namespace rung::bridge
