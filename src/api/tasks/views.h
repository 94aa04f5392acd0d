// Tasks, attempts, audits and bulks as JSON, with the names of the views' columns. Ids are strings (they do
// not fit a JavaScript number), times RFC 3339, missing values null. Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/store/bulks.h"
#include "src/store/gates.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

Json to_json(const TaskRow& row);     // retry_current
Json to_json(const AttemptRow& row);  // retry_history
Json to_json(const AuditRow& row);    // retry_audit
Json to_json(const Bulk& bulk);       // retry_bulks, with its filter and its target as objects

Json to_json(const Silence& silence);  // {"presumed_after": "10m"}

struct TaskDetails {
  TaskRow row;
  std::vector<AttemptRow> history;
  std::optional<QueueGate> gate;      // that holds it back
  Silence silence;                    // silence_of()
  std::vector<TaskId> children = {};  // children_of()
};
// Tasks that continue this one, and its edited copy; the oldest first, at most MysqlStore::kMostChildren.
Result<std::vector<TaskId>> children_of(MysqlStore& store, const Task& task);
// The task, and ladder_pinned, history, held, silence_held (why its silence is held open), silence,
// children.
Json to_json(const TaskDetails& details);

inline constexpr std::int64_t kMostCounted = 1'000'000;

// Without `by` only the total is set. Counting stops at `most`.
Result<TaskCounts> count_tasks(MysqlStore& store, const Filter& filter, const std::optional<CountBy>& by,
                               std::int64_t most);
// {"count": 12, "or_more": false}, and with `by`: "by", "groups": [{"value": "orders", "count": 7}],
// "others".
Json to_json(const TaskCounts& counts, const std::optional<CountBy>& by, std::int64_t most);
// The same of the tasks that a bulk would take, and "dry_run".
Result<Json> dry_run(MysqlStore& store, const NewBulk& bulk, const std::optional<CountBy>& by,
                     const RuleBook& rules);

std::string etag(const Task& task);  // its version, in quotes

}  // namespace rung::api
