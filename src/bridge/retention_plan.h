// When what goes: the parts (partitions) that the tables of attempts and bodies must have, and what becomes
// of those that are old. Thread: pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/core/time.h"
#include "src/store/retention.h"

namespace rung::bridge {

inline constexpr Ms kDay{24LL * 3600 * 1000};

// How wide a part is: a day; with a long retention so wide that there are about a hundred, for each statement
// pays for each of them; 30 days where nothing is ever let go of.
Ms part_width(std::optional<Ms> retention);

// What has to be added so that the next days have their parts; nothing where they are there for four days
// more. A part ends at midnight, UTC.
std::vector<Part> parts_to_add(std::span<const Part> there, EpochMs now, std::optional<Ms> retention);

// What of a part is old at `now`.
struct PartDue {
  bool drop = false;  // as a whole, if no task of it is left
  // Else what its tasks left behind is to be taken out row by row, up to here; 0 = not yet: it is cheaper to
  // wait a little for what climbs its ladder still, than to delete what will be dropped anyway.
  TaskId sweep_to = {};
};
PartDue part_due(const Part& part, EpochMs now, Ms retention);

}  // namespace rung::bridge
