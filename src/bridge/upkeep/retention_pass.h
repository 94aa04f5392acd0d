// One pass of retention: creates partitions for the coming days; deletes old finished tasks in small batches,
// and old records; drops old partitions whole or, if a task still needs one, sweeps it row by row. A pass is
// a value that is passed to each step and returned by it. Thread: perform_step() on a store thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/retention.h"

namespace rung::bridge {

// What was deleted.
struct RetentionTotals {
  std::int64_t tasks = 0, partitions = 0, audit = 0, bulks = 0, events = 0;
  std::optional<EpochMs> last;  // when something was deleted
};

struct RetentionPass {
  enum class Stage { add, tasks, records, list, drop, sweep, done };

  Stage stage = Stage::done;
  std::optional<Ms> keep;  // none: nothing is deleted, but partitions are still created
  EpochMs now;             // when the pass began
  BootMs began{0};
  bool look = false;   // also check the partitions
  bool sweep = false;  // also sweep the leftovers in those that stay
  PurgeCursor cursor;
  std::vector<Partition> old;  // still to be checked, the last one first
  TaskId sweep_from, sweep_to;
  bool busy = false;       // the tables were in use: try later
  bool refused = false;    // a partition could not be dropped: don't try the next
  std::string trouble;     // with the tables; the rest continues
  bool cut_short = false;  // it left old tasks for the next pass
  // Of the last step.
  RetentionTotals gone;
  std::vector<std::string> dropped;  // partitions, by name
  Ms took{0};
};

// An error with the tables' partitions (no permission, the tables are in use) does not block the rest.
Result<RetentionPass> perform_step(RetentionPass pass, const Clock& here, RetentionStore& store);

// --- plans: which partitions the tables of attempts and bodies must have, and what happens to old ones. Pure
// functions.
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
