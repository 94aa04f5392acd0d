// A scheduled task that moves to the database of another group: a new row there, which continues where the
// old one stood, and the old one cancelled (`rung move`). Both rows exist for a moment, and after a crash for
// longer: the origin of the new one names the old one, so that a repetition can tell what has been done.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/task/task.h"

namespace rung {

// The old row.
struct MovedFrom {
  std::string group;
  TaskId id;
  std::uint32_t version = 0;  // Task::version when it was read: a row that has changed since is another copy
  bool operator==(const MovedFrom&) const = default;
};

// event::Cancel::reason of the old row: "moved to us".
std::string moved_reason(std::string_view to_group);
// Whether the move has cancelled the old row, as `now` has it. False for any other change.
bool is_moved_away(const Task& now, const MovedFrom& from, std::string_view to_group);

// The new row, without id, shard and created_at. The attempts before stay in the old database; their number,
// the level and the due time are the same here. `origin_json`: of the old row; `who`: ByHand::who.
// REQUIRES: the old row is scheduled.
NewTask moved_task(const Task& old, MessagePtr message, std::string_view origin_json, const MovedFrom& from,
                   std::string_view who);
// Its intake key. A task that was submitted under a message-id, and was not edited since, keeps the key of
// that submission if no other row has it: a client that submits it again gets the moved task.
std::string moved_key(const MovedFrom& from);

// Whether the row that has the intake key of `made` already is the same task. `origin_json`: of that row.
bool is_same_task(const NewTask& made, const Task& there, std::string_view origin_json);

// From NewTask::origin_json; none: the row was not moved here.
std::optional<MovedFrom> moved_from_origin(std::string_view origin_json);

}  // namespace rung
