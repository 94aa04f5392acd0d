// Plans deletions: which partitions the tables of attempts and bodies must have, and what happens to old
// ones. Thread: pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/retention.h"

namespace rung::bridge {

inline constexpr Ms kDay{24LL * 3600 * 1000};

// The width of a partition: a day; with a long retention, wide enough that there are about a hundred, since
// every partition adds cost to each statement; 30 days if nothing is ever deleted.
Ms partition_width(std::optional<Ms> retention);

// The partitions to add for the coming days; none if they exist for four more days. A partition ends at
// midnight, UTC.
std::vector<Partition> partitions_to_add(std::span<const Partition> there, EpochMs now,
                                         std::optional<Ms> retention);

// What to delete of a partition at `now`.
struct PartitionDue {
  bool drop = false;  // as a whole, if none of its tasks is left
  // Otherwise delete the leftovers of finished tasks row by row, up to this id; 0 = not yet: waiting a little
  // for tasks that are still on their ladder is cheaper than deleting rows that will be dropped anyway.
  TaskId sweep_to = {};
};
PartitionDue partition_due(const Partition& partition, EpochMs now, Ms retention);

}  // namespace rung::bridge
