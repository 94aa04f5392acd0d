// Describes a task for people and for scripts. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/store/queries.h"

namespace rung::cli {

using api::Json;

// One line: what the task waits for, or how it ended: "scheduled: level 4 of 9, due 2026-... (in 9m12s)".
// `silence`: what silence means for it, if it awaits an answer; none: not known.
std::string what_next(const TaskRow& row, std::optional<Silence::Means> silence, EpochMs now);

// The task's target, for one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Task& task);

// A short form of what_next, for one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Task& task, EpochMs now);

// The error that the message arrived with, from what strip() kept. "" = unknown.
std::string first_error(std::string_view origin_json);

// Never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);

// A message's body for people and scripts: UTF-8 text with control characters escaped; otherwise every byte
// that is not printable ASCII as \xNN.
std::string printable_body(std::string_view body);

}  // namespace rung::cli
