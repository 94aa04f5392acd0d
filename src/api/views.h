// Tasks, attempts, audits and bulks as JSON, with the names of the views' columns. Ids are strings (they do
// not fit a JavaScript number), times RFC 3339, missing values null. Thread: pure functions.
#pragma once

#include "src/api/json.h"
#include "src/store/bulks.h"
#include "src/store/queries.h"

namespace rung::api {

Json to_json(const TaskRow& row);     // retry_current
Json to_json(const AttemptRow& row);  // retry_history, without the columns of its task
Json to_json_with_task(const AttemptRow& row);
Json to_json(const AuditRow& row);  // retry_audit
Json to_json(const Bulk& bulk);     // retry_bulks, with its filter and its target as objects
// {"by": "queue", "groups": [{"value": "orders", "count": 7}], "others": 0}
Json to_json(const TaskCounts& counts, const CountBy& by);

std::string etag(const Task& task);  // its version, in quotes

}  // namespace rung::api
