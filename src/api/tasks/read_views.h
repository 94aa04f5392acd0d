// The way back from views.h: what the command line reads from the API. Thread: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "src/api/json/json.h"
#include "src/api/tasks/views.h"
#include "src/core/base/result.h"
#include "src/store/store.h"

namespace rung::api {

// Only what to_json() writes is set; what the task does inside of Rung (its lease, its counts) is not.
Result<TaskRow> task_from_json(const Json& json);
Result<std::vector<TaskId>> children_from_json(const Json& task);  // of the details of a task
Result<AttemptRow> attempt_from_json(const Json& json);
Result<AuditRow> audit_from_json(const Json& json);
// Bulk::filter_text is the filter as JSON.
Result<Bulk> bulk_from_json(const Json& json);
Result<std::optional<SentCounts>> outcomes_from_json(const Json& json);  // of a bulk, with `outcomes`
Result<TaskCounts> counts_from_json(const Json& json);

}  // namespace rung::api
