// The changes by hand of all tasks and queues, in pages: GET /v1/audit, `rung audit`. Thread: pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/store/tasks.h"

namespace rung::api {

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
