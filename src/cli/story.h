// A task told to people and to scripts. Thread: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/policy.h"
#include "src/store/queries.h"

namespace rung::cli {

using Json = nlohmann::ordered_json;

// One line on what the task waits for, or how it ended: "scheduled: level 4 of 9, due 2026-... (in 9m12s)".
std::string what_next(const TaskRow& row, const RuleBook& rules, EpochMs now);

// Where it goes (back) to, of one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Task& task);

// The same as what_next, of one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Task& task, EpochMs now);

// The error that the message brought with it at first, by what strip() kept of it. "" = nothing is known.
std::string first_error(std::string_view origin_json);

// The columns of retry_current, retry_history, retry_audit and retry_bulks under their names; ids as text
// (they do not fit a JavaScript number), times as RFC 3339, what is not there as null.
Json to_json(const TaskRow& row);
Json to_json(const AttemptRow& row);
Json to_json(const AuditRow& row);
Json to_json(const Bulk& bulk);
// Never throws: broken UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);

}  // namespace rung::cli
