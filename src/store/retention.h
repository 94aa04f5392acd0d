// Deletes old finished tasks and their history. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/ids.h"
#include "src/core/result.h"
#include "src/core/time.h"

namespace rung {

// --- what retention is about: tasks that are over for good (succeeded, cancelled, discarded; parked ones
// wait for a person), and what is kept of them.
// How far a walk through the finished tasks has come: by finished_at, then id.
struct PurgeCursor {
  EpochMs at;
  TaskId id = {};
  bool operator==(const PurgeCursor&) const = default;
};
struct PurgeResult {
  std::int64_t tasks = 0;  // gone now
  PurgeCursor last;        // looked at up to here
  bool more = false;       // there may be more after it that is old
};
// A partition of the tables of attempts and bodies: those of the tasks with from <= id < end. A day's, or
// several days'.
struct Partition {
  std::string name;
  TaskId from, end;
  bool operator==(const Partition&) const = default;
};
enum class PartitionDrop : std::uint8_t {
  dropped,  // or it was gone already
  kept,     // a task of it is still there
  busy,     // somebody's transaction is open on the tables: nothing was done, again later
};
enum class PartitionsAdded : std::uint8_t {
  added,  // or they were there already
  busy,   // as above
  full,   // what lies beyond the last partition is too much to be moved: nothing was done
};
struct Swept {
  std::int64_t tasks = 0;      // whose attempts and bodies went now
  std::optional<TaskId> next;  // go on here; none: through
};
struct PurgedRecords {
  std::int64_t audit = 0, bulks = 0, events = 0;  // gone now
  bool more = false;
};

// src/bridge/retention.h says when. Each call may be done twice, and by two at once.
class RetentionStore {
 public:
  virtual ~RetentionStore() = default;

  // Looks at up to `limit` finished tasks after `from`; deletes those that are over since before `before`,
  // but for what a bulk under way names and what is locked just now. Their attempts and bodies are out of
  // people's sight at once, and go with their partition.
  virtual Result<PurgeResult> purge_finished(EpochMs before, const PurgeCursor& from, int limit) = 0;
  // But for the last one, which takes whatever is later than all others. By `end`.
  virtual Result<std::vector<Partition>> partitions() = 0;
  // Those of `partitions` (by `end`, each begins where the one before it ends) that are later than all that
  // are there; and what an earlier call that was cut short left to do. Others wait for as long as it takes,
  // and for a second at most where it is `busy`.
  virtual Result<PartitionsAdded> add_partitions(std::span<const Partition> partitions) = 0;
  // Whole, where no task of it is left. Others wait as for add_partitions.
  virtual Result<PartitionDrop> drop_partition(const Partition& partition) = 0;
  // Attempts and bodies whose task is gone, from <= id < to, in the order of ids: `limit` tasks at most.
  virtual Result<Swept> sweep(TaskId from, TaskId to, int limit) = 0;
  // Audit rows and events from before `before`, and bulks with their items that ended before it: `limit` rows
  // at most.
  virtual Result<PurgedRecords> purge_records(EpochMs before, int limit) = 0;
};

}  // namespace rung
