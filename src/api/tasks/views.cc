#include "src/api/tasks/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/queues/gates.h"

namespace rung::api {

namespace {

// Text that should be JSON; returned as a string if it is not.
Json as_json(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? text_or_null(text) : json;
}

}  // namespace

Json to_json(const Silence& silence) {
  const char* name = silence.means == Silence::Means::success ? "presumed_after" : "reported_within";
  return {{name, levels::format_duration(silence.after)}};
}

std::string etag(const Task& task) { return "\"" + std::to_string(task.version) + "\""; }

Json to_json(const TaskRow& row) {
  const Task& t = row.task;
  const std::optional<EpochMs> failed =
      t.first_failed_at.ms == 0 ? std::nullopt : std::optional(t.first_failed_at);
  Json json = {{"retry_id", t.id.str()},
               {"kind", to_word(t.kind)},
               {"queue", text_or_null(t.queue)},
               {"exchange", text_or_null(t.exchange)},
               {"routing_key", text_or_null(t.routing_key)},
               {"tag", text_or_null(t.tag)},
               {"message_id", text_or_null(t.message_id)},
               {"state", to_word(t.state)},
               {"attempt", t.attempt},
               {"level", t.level},
               {"levels", t.levels},
               {"ladder", t.ladder},
               {"next_due_at", time_or_null(t.next_at)},
               {"first_failed_at", time_or_null(failed)},
               {"created_at", to_rfc3339(t.created_at)},
               {"finished_at", time_or_null(t.finished_at)},
               {"finished_by", text_or_null(to_word(t.finished_by))},
               {"last_error", text_or_null(t.last_error)},
               {"body_bytes", t.body_bytes},
               {"shard", t.shard},
               {"node", text_or_null(row.node)},
               {"version", t.version},
               {"error_type", text_or_null(t.error_type)}};
  if (row.correlation_id) json["correlation_id"] = text_or_null(*row.correlation_id);
  json["rule"] = text_or_null(t.rule);
  json["uncounted_attempts"] = t.uncounted_attempts;
  json["error_queue"] = text_or_null(t.error_queue);
  json["parent_id"] = t.parent.value == 0 ? Json(nullptr) : Json(t.parent.str());
  json["cause_id"] = text_or_null(t.cause);
  json["replaced_by"] = t.replaced_by.value == 0 ? Json(nullptr) : Json(t.replaced_by.str());
  // Not columns of the view.
  json["max_attempts"] = t.max_attempts == 0 ? Json(nullptr) : Json(t.max_attempts);
  json["success"] = t.silence ? to_json(*t.silence) : Json();
  json["by_exchange"] = t.by_exchange;
  json["body_stored"] = body_stored(t);
  return json;
}

Json to_json(const AttemptRow& row) {
  const Attempt& a = row.attempt;
  Json late = nullptr;
  if (a.published_at) late = (*a.published_at - a.due_at).count();
  return {{"retry_id", a.task.str()},
          {"queue", text_or_null(row.queue)},
          {"message_id", text_or_null(row.message_id)},
          {"attempt", a.attempt},
          {"level", a.level},
          {"due_at", to_rfc3339(a.due_at)},
          {"published_at", time_or_null(a.published_at)},
          {"late_ms", late},
          {"outcome", to_word(a.outcome)},
          {"outcome_at", time_or_null(a.outcome_at)},
          {"error", text_or_null(a.error)},
          {"node", text_or_null(row.node)},
          {"executor", text_or_null(a.executor)},
          {"rule", text_or_null(a.rule)}};
}

Json to_json(const AuditRow& row) {
  return {{"audit_id", std::to_string(row.id)},
          {"at", to_rfc3339(row.at)},
          {"who", row.who},
          {"what", row.what},
          {"retry_id", row.task.value == 0 ? Json(nullptr) : Json(row.task.str())},
          {"before", as_json(row.before)},
          {"after", as_json(row.after)},
          {"reason", text_or_null(row.reason)},
          {"bulk_id", row.bulk == 0 ? Json(nullptr) : Json(std::to_string(row.bulk))}};
}

std::string cursor_of(const Task& task, Filter::Order order) {
  const auto due = order == Filter::Order::due ? due_of(task) : std::nullopt;
  return task.id.str() + (due ? "." + std::to_string(due->ms) : "");
}

bool read_cursor(std::string_view cursor, Filter& filter) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  filter.after_due.reset();
  filter.after = TaskId::parse(cursor.substr(0, dot));
  if (dot == cursor.size()) return filter.after.has_value();
  const auto due = id_of_cursor(cursor.substr(dot + 1));
  if (due) filter.after_due = EpochMs{*due};
  return due && filter.after && filter.order == Filter::Order::due;
}

std::vector<TaskId> children_of(MysqlStore& store, const Task& task) {
  auto children = store.children(task);
  // An edit may have changed the message-id.
  if (task.replaced_by.value != 0 && std::ranges::find(children, task.replaced_by) == children.end()) {
    if (children.size() == MysqlStore::kMostChildren) children.pop_back();
    children.insert(std::ranges::upper_bound(children, task.replaced_by), task.replaced_by);
  }
  return children;
}

Response changed_task(Context& context, const Task& task, const Json& also) {
  Json json = to_json(context.named(task));
  const auto gate = context.reads.result_of([&](MysqlStore& store) { return holding_gate(store, task); });
  json["held"] = gate_json(gate.value_or(std::nullopt));
  json.update(also);
  return answer(200, json, {{"ETag", etag(task)}});
}

Problem refused_change(const Call& call, const Decision& decision, const Json& also) {
  const Task& task = decision.task;
  if (decision.reason == kNoSuchTask) return {404, "no task has the id " + shown(call.id)};
  if (decision.reason == kNotTheirQueue) return outside_queues(call.person, task.queue);
  Json more = {{"state", to_word(task.state)}, {"version", task.version}};
  more.update(also);
  if (decision.reason != kChangedMeanwhile) return {409, decision.reason, more};
  const std::string version = std::to_string(task.version);
  return {412, "the task has changed since you read it: its version is now " + version, more};
}

Json count_tasks(MysqlStore& store, const Filter& filter, const std::optional<CountBy>& by,
                 std::int64_t most) {
  TaskCounts counts;
  if (by) {
    counts = store.count_by(filter, *by, most);
  } else {
    counts.total = store.count(filter, most);
  }
  Json json = {{"count", counts.total}, {"or_more", counts.total >= most}};
  if (!by) return json;
  json["by"] = by->str();
  json["groups"] = Json::array();
  for (const TaskCounts::Group& group : counts.groups)
    json["groups"].push_back({{"value", text_or_null(group.value)}, {"count", group.tasks}});
  json["others"] = counts.others;
  return json;
}

std::string cursor_of(const AuditPlace& place) {
  return std::to_string(place.id) + "." + std::to_string(place.at.ms);
}

std::optional<AuditPlace> audit_place_of(std::string_view cursor) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  const auto id = id_of_cursor(cursor.substr(0, dot));
  const auto at = id_of_cursor(cursor.substr(std::min(dot + 1, cursor.size())));
  if (!id || !at) return std::nullopt;
  return AuditPlace{{*at}, *id};
}

Json to_json(const AuditPage& page) {
  Json rows = Json::array();
  for (const AuditPage::Row& row : page.rows) {
    Json json = to_json(row.change);
    json["queue"] = text_or_null(row.queue);
    rows.push_back(std::move(json));
  }
  return {{"audit", std::move(rows)}, {"next", page.next ? Json(cursor_of(*page.next)) : Json()}};
}

}  // namespace rung::api
