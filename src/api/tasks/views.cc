#include "src/api/tasks/views.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "levels/duration.h"
#include "src/api/queues/gates.h"
#include "src/api/tasks/bulks.h"
#include "src/api/tasks/pages.h"
#include "src/core/base/time.h"

namespace rung::api {

namespace {

Json silence_or_null(const std::optional<Silence>& silence) { return silence ? to_json(*silence) : Json(); }

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
  json["success"] = silence_or_null(t.silence);
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
          {"retry_id", row.task.str()},
          {"before", as_json(row.before)},
          {"after", as_json(row.after)},
          {"reason", text_or_null(row.reason)},
          {"bulk_id", row.bulk == 0 ? Json(nullptr) : Json(std::to_string(row.bulk))}};
}

Json to_json(const Bulk& b) {
  const Json filter = Json::parse(b.filter_text, nullptr, false);
  Json elsewhere = nullptr;
  if (!b.elsewhere.queue.empty()) {
    elsewhere = {{"queue", b.elsewhere.queue}};
  } else if (b.elsewhere.is_set()) {
    elsewhere = {{"exchange", b.elsewhere.exchange}, {"routing_key", b.elsewhere.routing_key}};
  }
  return {{"id", std::to_string(b.id)},
          {"action", to_word(b.action)},
          {"state", to_word(b.state)},
          {"filter", filter.is_object() ? filter : Json::object()},
          {"reason", text_or_null(b.reason)},
          {"elsewhere", elsewhere},
          {"even_reported", b.even_reported},
          {"rate", b.rate},
          {"total", b.total},
          {"done", b.done},
          {"applied", b.applied},
          {"refused", b.refused},
          {"canary", b.care.canary},
          {"watch_ms", ms_or_null(b.care.watch)},
          {"ramp", b.care.ramp},
          {"stop_on_failures", b.care.stop_above ? Json(percent_text(*b.care.stop_above)) : Json()},
          {"stage", stage_of(b)},
          {"stopped_because", text_or_null(b.stopped_because)},
          {"changed_at", time_or_null(b.changed_at)},
          {"changed_by", text_or_null(b.changed_by)},
          {"changed_because", text_or_null(b.changed_because)},
          {"who", b.who},
          {"runner", text_or_null(b.runner)},
          {"created_at", to_rfc3339(b.created_at)},
          {"finished_at", time_or_null(b.finished_at)}};
}

Json to_json(const TaskDetails& details) {
  Json json = to_json(details.row);
  json["ladder_pinned"] = details.row.task.ladder_pinned;
  json["history"] = Json::array();
  for (const AttemptRow& attempt : details.history) json["history"].push_back(to_json(attempt));
  json["held"] = details.gate ? gate_json(*details.gate) : Json();
  const bool held = is_silence_held(details.row.task) && !details.history.empty();
  json["silence_held"] = held ? Json(details.history.back().attempt.error) : Json();
  json["silence"] = to_json(details.silence);
  json["children"] = Json::array();
  for (const TaskId child : details.children) json["children"].push_back(child.str());
  return json;
}

Result<std::vector<TaskId>> children_of(MysqlStore& store, const Task& task) {
  auto children = store.children(task);
  if (!children) return children;
  // An edit may have changed the message-id.
  if (task.replaced_by.value != 0 && std::ranges::find(*children, task.replaced_by) == children->end()) {
    if (children->size() == MysqlStore::kMostChildren) children->pop_back();
    children->insert(std::ranges::upper_bound(*children, task.replaced_by), task.replaced_by);
  }
  return children;
}

Json to_json(const TaskCounts& counts, const std::optional<CountBy>& by, std::int64_t most) {
  Json json = {{"count", counts.total}, {"or_more", counts.total >= most}};
  if (!by) return json;
  json["by"] = by->str();
  json["groups"] = Json::array();
  for (const TaskCounts::Group& group : counts.groups)
    json["groups"].push_back({{"value", text_or_null(group.value)}, {"count", group.tasks}});
  json["others"] = counts.others;
  return json;
}

Result<TaskCounts> count_tasks(MysqlStore& store, const Filter& filter, const std::optional<CountBy>& by,
                               std::int64_t most) {
  if (by) return store.count_by(filter, *by, most);
  auto count = store.count(filter, most);
  if (!count) return tl::unexpected(count.error());
  TaskCounts counts;
  counts.total = *count;
  return counts;
}

Result<Json> dry_run(MysqlStore& store, const NewBulk& bulk, const std::optional<CountBy>& by,
                     const RuleBook& rules) {
  const std::int64_t most = bulk.limit > 0 ? bulk.limit : kMostCounted;
  const auto counts = count_tasks(store, of_bulk(bulk), by, most);
  if (!counts) return tl::unexpected(counts.error());
  Json json = {{"dry_run", true}};
  // A bulk takes no more than its limit, even if more tasks match.
  json.update(to_json(*counts, by, bulk.limit > 0 ? INT64_MAX : most));
  const auto notes = redrive_notes(store, bulk, rules);
  if (!notes) return notes;
  json.update(*notes);
  return json;
}

}  // namespace rung::api
