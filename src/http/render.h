// Tasks, attempts, audits and bulks as JSON: the columns of the views under their names. Ids are texts (they
// do not fit a JavaScript number), times RFC 3339, what is not there null. Thread: pure functions.
#pragma once

#include "src/http/problem.h"
#include "src/store/queries.h"

namespace rung::http {

Json to_json(const TaskRow& row);     // retry_current
Json to_json(const AttemptRow& row);  // retry_history, without the columns of its task
Json to_json(const AuditRow& row);    // retry_audit
Json to_json(const Bulk& bulk);       // retry_bulks

std::string etag(const Task& task);  // its version, in quotes

}  // namespace rung::http
