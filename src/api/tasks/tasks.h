// Tasks, attempts and audits as JSON, with the names of the views' columns: ids are strings (they do not fit
// a JavaScript number), times RFC 3339, missing values null. And which tasks a list or a bulk means: the only
// table of a filter's conditions, by which it is read and written. Thread: pure functions; those with a store
// block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/api/base/context.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/tasks.h"

namespace rung::api {

Json to_json(const TaskRow& row);     // retry_current
Json to_json(const AttemptRow& row);  // retry_history
Json to_json(const AuditRow& row);    // retry_audit

Json to_json(const Silence& silence);  // {"presumed_after": "10m"}
std::string etag(const Task& task);    // its version, in quotes

// The place of a task in a list: its id, and by due time "ID.DUE_MS", or "ID" if it has none.
std::string cursor_of(const Task& task, Filter::Order order);
// Sets the place after which `filter` lists, by its order. False: `cursor` is none of cursor_of().
bool read_cursor(std::string_view cursor, Filter& filter);

// Tasks that continue this one, and its edited copy; the oldest first, at most MysqlStore::kMostChildren.
std::vector<TaskId> children_of(MysqlStore& store, const Task& task);

// The response to a change: the task as it has left it, with the gate that holds it back, and its ETag.
Response changed_task(Context& context, const Task& task, const Json& also = Json::object());
// Why a change was refused. `also`: further members, where the task's state is the reason.
Problem refused_change(const Call& call, const Decision& decision, const Json& also = Json::object());

// What to count by, in a query or a dry run.
inline constexpr const char* kCountByWords =
    "queue, error_type, tag, level, cause or header.NAME (a header in index_headers)";
// {"count": 12, "or_more": false}, and with `by`: "by", "groups": [{"value": "orders", "count": 7}],
// "others". Counting stops at `most`.
Json count_tasks(MysqlStore& store, const Filter& filter, const std::optional<CountBy>& by,
                 std::int64_t most);

// What a bulk would do: {"dry_run": true} and count_tasks(); for a redrive also `without_body` and `expired`.
Json dry_run(MysqlStore& store, const NewBulk& bulk, const std::optional<CountBy>& by, const RuleBook& rules);

// What can be in AuditRow::what.
inline constexpr std::array<std::string_view, 12> kAuditActions{
    "abort", "cancel", "discard", "edit",   "failed",     "finish",
    "fire",  "pause",  "redrive", "resume", "reschedule", "succeeded"};

// "ID.AT_MS"; nullopt: it is none.
std::string cursor_of(const AuditPlace& place);
std::optional<AuditPlace> audit_place_of(std::string_view cursor);
// Changes as in the audit of a task, with the queue; retry_id is null where the change is about no task.
Json to_json(const AuditPage& page);

struct Condition {
  Param param;
  // None: of a type of its own.
  std::variant<std::monostate, std::string Filter::*, std::optional<EpochMs> Filter::*> member = {};
};
inline constexpr std::array<std::string_view, 1> kOnlyTrue{"true"};
inline constexpr std::array kConditions = std::to_array<Condition>({
    {{"queue", Param::Is::text, "the queue"}, &Filter::queue},
    {{"exchange", Param::Is::text, "the exchange"}, &Filter::exchange},
    {{"state", Param::Is::words, "the state, or several separated by commas", kWords<State>}},
    {{"kind", Param::Is::word, "failed messages, or delayed ones", kWords<Kind>}},
    {{"tag", Param::Is::text, "the tag"}, &Filter::tag},
    {{"message_id", Param::Is::text, "the message-id"}, &Filter::message_id},
    {{"correlation_id", Param::Is::text, "the message property correlation_id"}, &Filter::correlation_id},
    {{"headers", Param::Is::headers,
      "header.NAME=VALUE, once for each header: the message has this header; only headers in `index_headers` "
      "of the config"}},
    {{"ladder", Param::Is::text, "the ladder"}, &Filter::ladder},
    {{"error", Param::Is::text, "the last error contains this text"}, &Filter::error_contains},
    {{"error_type", Param::Is::text, "the type of the last error"}, &Filter::error_type},
    {{"cause", Param::Is::cause, "the cause of the last failure: `cause_id` of /v1/causes"}, &Filter::cause},
    {{"due_before", Param::Is::time, "due before"}, &Filter::due_before},
    {{"due_after", Param::Is::time, "due after"}, &Filter::due_after},
    {{"first_failed_after", Param::Is::time, "first failed after"}, &Filter::first_failed_after},
    {{"first_failed_before", Param::Is::time, "first failed before"}, &Filter::first_failed_before},
    {{"created_after", Param::Is::time, "created after"}, &Filter::created_after},
    {{"created_before", Param::Is::time, "created before"}, &Filter::created_before},
    {{"outcome_unknown", Param::Is::word, "only deliveries whose silence is held open", kOnlyTrue}},
});

inline constexpr auto kConditionParams = [] {
  std::array<Param, kConditions.size()> params;
  std::ranges::transform(kConditions, params.begin(), &Condition::param);
  return params;
}();

// Parameters that are no conditions are left out. REQUIRES: those that are have been checked.
Filter filter_of(const Pairs& conditions);
// The filter of a bulk: an object of texts, not empty. Its row stores filter_json(). What is wrong goes to
// `errors`.
Filter read_filter(const Json& json, FieldErrors& errors);
// {"queue": "orders", "state": "parked"}: each condition is a string. Without place, order and limit.
Json filter_json(const Filter& filter);

}  // namespace rung::api
