#include "src/http/context.h"

#include <condition_variable>

namespace rung::http {

std::optional<Vitals> Context::vitals() const {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable there;
    std::optional<Vitals> vitals;
  };
  auto meeting = std::make_shared<Meeting>();
  ask_([meeting](const Vitals& vitals) {
    const std::lock_guard lock(meeting->mutex);
    meeting->vitals = vitals;
    meeting->there.notify_one();
  });
  std::unique_lock lock(meeting->mutex);
  meeting->there.wait_for(lock, std::chrono::seconds{2}, [&] { return meeting->vitals.has_value(); });
  return meeting->vitals;
}

TaskRow Context::named(const Task& task) {
  if (task.node == 0) return {task, ""};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = nodes_.find(task.node); known != nodes_.end()) return {task, known->second};
  }
  const auto nodes = reads.run([](QueryStore& store) { return store.nodes(); });
  const std::lock_guard lock(mutex_);
  if (nodes) {
    for (const NodeRow& node : *nodes) nodes_[node.id] = node.name;
  }
  const auto known = nodes_.find(task.node);  // not there: it is asked for again the next time
  return {task, known != nodes_.end() ? known->second : ""};
}

}  // namespace rung::http
