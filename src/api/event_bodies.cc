#include "src/api/event_bodies.h"

#include <map>
#include <nlohmann/json.hpp>

#include "src/api/causes.h"
#include "src/api/views.h"
#include "src/core/base/rfc3339.h"

namespace rung::api {
namespace {

using Tasks = std::map<TaskId, TaskRow>;

Result<Tasks> tasks_of(Store& store, const std::vector<OutgoingEvent>& events) {
  std::vector<TaskId> ids;
  for (const OutgoingEvent& event : events) {
    if (event.kind != OutgoingKind::task_parked) continue;
    if (const auto id = TaskId::parse(event.subject)) ids.push_back(*id);
  }
  Tasks tasks;
  if (ids.empty()) return tasks;
  auto known = store.known(ids);
  if (!known) return tl::unexpected(known.error());
  for (KnownTask& one : *known) tasks.emplace(one.row.task.id, std::move(one.row));
  return tasks;
}

Result<Json> cause_of(Store& store, const std::string& id) {
  const auto rows = store.causes({.id = id, .limit = 1});
  if (!rows) return tl::unexpected(rows.error());
  return rows->empty() ? Json() : to_json(rows->front());
}

Result<Json> bulk_of(Store& store, const std::string& id) {
  const auto bulk = store.bulk(std::stoll(id));
  if (!bulk) return tl::unexpected(bulk.error());
  return *bulk ? to_json(**bulk) : Json();
}

}  // namespace

Result<std::vector<std::optional<std::string>>> event_bodies(Store& store,
                                                             const std::vector<OutgoingEvent>& events,
                                                             const std::string& exchange) {
  const auto tasks = tasks_of(store, events);
  if (!tasks) return tl::unexpected(tasks.error());
  std::vector<std::optional<std::string>> bodies;
  for (const OutgoingEvent& event : events) {
    Json json = {{"id", std::to_string(event.id)},
                 {"type", to_word(event.kind)},
                 {"at", to_rfc3339(event.at)},
                 {"queue", event.queue.empty() ? Json() : Json(event.queue)}};
    if (event.kind == OutgoingKind::task_parked) {
      const auto task = tasks->find(TaskId::parse(event.subject).value_or(TaskId{}));
      if (task != tasks->end() && task->second.task.exchange == exchange) {
        bodies.emplace_back(std::nullopt);
        continue;
      }
      json["task"] = task == tasks->end() ? Json() : to_json(task->second);
    } else {
      const bool bulk = event.kind == OutgoingKind::bulk_ended;
      auto object = bulk ? bulk_of(store, event.subject) : cause_of(store, event.subject);
      if (!object) return tl::unexpected(object.error());
      json[bulk ? "bulk" : "cause"] = *std::move(object);
    }
    bodies.emplace_back(dump(json));
  }
  return bodies;
}

}  // namespace rung::api
