// Retention: deletes old finished tasks and records, and partitions the history tables so that partitions can
// be dropped. The owner of shard 0 does it, because that lease exists anyway. Two instances at once (a
// takeover during a step) do no harm: each step may be done twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/time.h"
#include "src/store/system.h"

namespace rung::bridge {

// What was deleted.
struct RetentionTotals {
  std::int64_t tasks = 0, partitions = 0, audit = 0, bulks = 0, events = 0;
  std::optional<EpochMs> last;  // when something was deleted
};

// For metrics.
struct RetentionState {
  RetentionTotals totals;
  std::optional<Ms> keep;  // none: retention is off
  // When nothing was left to delete, or this instance took charge, whichever is later; 0 = it never did.
  EpochMs tasks_done, partitions_done;
};

// Two jobs of one lane, in small steps and at most a quarter of the time: old tasks and records; and the
// partitions, once an hour, and soon after tasks went. Thread: the loop's.
class Retention {
 public:
  // `keep`: none = nothing is deleted, but partitions are still created.
  Retention(Jobs& jobs, const Shards& shards, const DbClock& clock, std::optional<Ms> keep);
  // Also tries again at once what has failed.
  void reload(std::optional<Ms> keep);
  // Of this instance, since its start.
  const RetentionState& state() const { return state_; }

 private:
  struct Purged;
  struct Tended;
  static constexpr Ms kFirstBusy{std::chrono::minutes{5}};

  BootMs now() const { return clock_.here().boot(); }
  // The step on a store thread, and then `done` with its answer.
  template <typename Step>
  Jobs::Work work_of(Step step, void (Retention::*done)(const Step&));
  Jobs::Work purge();
  void purged(const Purged& step);
  Jobs::Work tend();
  void tended(const Tended& step);

  Jobs& jobs_;
  const Shards& shards_;
  const DbClock& clock_;
  RetentionState state_;
  const Jobs::Id purge_, tend_;
  std::uint64_t epoch_ = 0;      // of shard 0, when this instance took charge
  PurgeCursor cursor_;           // of the walk over finished tasks
  BootMs walk_at_{0};            // it begins anew: tasks that were locked, and parked ones
  bool walking_ = false;         // it has not come to its end since
  bool went_ = false;            // tasks, since the partitions were looked at: one may be empty
  BootMs look_at_{0};            // for that, at the earliest
  Ms busy_pause_{kFirstBusy};    // twice as long each time that the tables were in use
  std::optional<TaskId> sweep_;  // leftovers in partitions that stay, from here on; none: not now
};

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
