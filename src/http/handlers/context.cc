#include "src/http/handlers/context.h"

#include <condition_variable>
#include <nlohmann/json.hpp>

#include "src/api/queues/gates.h"
#include "src/api/tasks/views.h"

namespace rung::http {

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

Json Context::changed(const Task& task) {
  Json json = api::to_json(named(task));
  const auto gate = reads.run([&](MysqlStore& store) { return api::holding_gate(store, task); });
  json["held"] = gate && *gate ? api::gate_json(**gate) : Json();
  return json;
}

std::string no_such_task_text(const Call& call) {
  return "no task has the id " + api::shown(call.id) + "; ids are the digits of retry_id";
}

Response no_such_task(const Call& call) { return problem(404, no_such_task_text(call), call.request.path); }

Response filter_problem(const Filter& filter, const Error& error, std::string_view instance,
                        bool counted_by) {
  // The header is not indexed (only the store knows which ones are), or the queue is a pattern.
  const bool ours = error.kind == Error::Kind::permanent &&
                    (!filter.headers.empty() || !filter.queue.empty() || counted_by);
  return ours ? problem(400, error.message, instance) : problem(error, instance);
}

Result<std::string> queue_of_task(Context& context, const Call& call) {
  const auto id = TaskId::parse(call.id);
  const auto row = context.reads.run([&](MysqlStore& store) { return store.find(id.value_or(TaskId{})); });
  if (!row) return tl::unexpected(row.error());
  if (!*row) return not_found(no_such_task_text(call));
  return (*row)->task.queue;
}

}  // namespace rung::http
