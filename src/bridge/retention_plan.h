// When what goes: the partitions that the tables of attempts and bodies must have, and what becomes
// of those that are old. Thread: pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/core/time.h"
#include "src/store/retention.h"

namespace rung::bridge {

inline constexpr Ms kDay{24LL * 3600 * 1000};

// How wide a partition is: a day; with a long retention so wide that there are about a hundred, for each
// statement pays for each of them; 30 days where nothing is ever let go of.
Ms partition_width(std::optional<Ms> retention);

// What has to be added so that the next days have their partitions; nothing where they are there for four
// days more. A partition ends at midnight, UTC.
std::vector<Partition> partitions_to_add(std::span<const Partition> there, EpochMs now,
                                         std::optional<Ms> retention);

// What of a partition is old at `now`.
struct PartitionDue {
  bool drop = false;  // as a whole, if no task of it is left
  // Else what its tasks left behind is to be taken out row by row, up to here; 0 = not yet: it is cheaper to
  // wait a little for what climbs its ladder still, than to delete what will be dropped anyway.
  TaskId sweep_to = {};
};
PartitionDue partition_due(const Partition& partition, EpochMs now, Ms retention);

}  // namespace rung::bridge
