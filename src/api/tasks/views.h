// Tasks, attempts and audits as JSON, with the names of the views' columns. Ids are strings (they do not fit
// a JavaScript number), times RFC 3339, missing values null. Thread: pure functions; those with a store
// block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/context.h"
#include "src/store/mysql/mysql_store.h"

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
inline constexpr std::size_t kCountByBytes = 300;
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

}  // namespace rung::api
