#include "src/api/base/context.h"

#include <condition_variable>

namespace rung::api {

std::optional<Vitals> Context::vitals() const {
  if (!ask_) return std::nullopt;
  struct PendingReply {
    std::mutex mutex;
    std::condition_variable there;
    std::optional<Vitals> vitals;
  };
  auto pending = std::make_shared<PendingReply>();
  ask_([pending](const Vitals& vitals) {
    const std::lock_guard lock(pending->mutex);
    pending->vitals = vitals;
    pending->there.notify_one();
  });
  std::unique_lock lock(pending->mutex);
  pending->there.wait_for(lock, std::chrono::seconds{2}, [&] { return pending->vitals.has_value(); });
  return pending->vitals;
}

TaskRow Context::named(const Task& task) {
  if (task.node == 0) return {task, ""};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = nodes_.find(task.node); known != nodes_.end()) return {task, known->second};
  }
  const auto nodes = reads.run([](MysqlStore& store) { return store.nodes(); });
  const std::lock_guard lock(mutex_);
  if (nodes) {
    for (const NodeRow& node : *nodes) nodes_[node.id] = node.name;
  }
  const auto known = nodes_.find(task.node);  // if missing, the next call asks again
  return {task, known != nodes_.end() ? known->second : ""};
}

void no_such_task(const Call& call) {
  throw StoreError(
      {Error::Kind::not_found, "no task has the id " + shown(call.id) + "; ids are the digits of retry_id"});
}

TaskId task_id_of(const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) no_such_task(call);
  return *id;
}

TaskRow find_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  auto row = context.reads.read([&](MysqlStore& store) { return need(store.find(id)); });
  if (!row) no_such_task(call);
  return *std::move(row);
}

std::string queue_of_task(Context& context, const Call& call) { return find_task(context, call).task.queue; }

}  // namespace rung::api
