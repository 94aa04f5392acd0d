// A task told to people and to scripts. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/api/json.h"
#include "src/core/policy.h"
#include "src/store/queries.h"

namespace rung::cli {

using api::Json;

// One line on what the task waits for, or how it ended: "scheduled: level 4 of 9, due 2026-... (in 9m12s)".
std::string what_next(const TaskRow& row, const RuleBook& rules, EpochMs now);

// Where it goes (back) to, of one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Task& task);

// The same as what_next, of one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Task& task, EpochMs now);

// The error that the message brought with it at first, by what strip() kept of it. "" = nothing is known.
std::string first_error(std::string_view origin_json);

// Never throws: broken UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);

}  // namespace rung::cli
