// Deletes old finished tasks and their history. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/base/ids.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung {

// --- retention: deletes finished tasks (succeeded, cancelled, discarded; parked tasks wait for a person) and
// their attempts and bodies.
// Position of a scan over the finished tasks: by finished_at, then id.
struct PurgeCursor {
  EpochMs at;
  TaskId id = {};
  bool operator==(const PurgeCursor&) const = default;
};
struct PurgeResult {
  std::int64_t tasks = 0;  // gone now
  PurgeCursor last;        // examined up to here
  bool more = false;       // there may be more old tasks after it
};
// A partition of the tables of attempts and bodies, for the tasks with from <= id < end: one day or several.
struct Partition {
  std::string name;
  TaskId from, end;
  bool operator==(const Partition&) const = default;
};
enum class PartitionDrop : std::uint8_t {
  dropped,  // or it was gone already
  kept,     // one of its tasks still exists
  busy,     // a transaction is open on the tables: nothing was done, retry later
};
enum class PartitionsAdded : std::uint8_t {
  added,  // or they were there already
  busy,   // as above
  full,   // too many rows in the catch-all partition to move: nothing was done
};
struct Swept {
  std::int64_t tasks = 0;      // tasks whose attempts and bodies were deleted now
  std::optional<TaskId> next;  // continue here; none: complete
};
struct PurgedRecords {
  std::int64_t audit = 0, bulks = 0, events = 0;  // gone now
  bool more = false;
};

// src/bridge/upkeep/retention.h decides when. Each call may be repeated, and run by two processes at once.
class RetentionStore {
 public:
  virtual ~RetentionStore() = default;

  // Examines up to `limit` finished tasks after `from`; deletes those that finished before `before`, except
  // tasks in a running bulk and tasks locked just now. Their attempts and bodies become invisible at once,
  // and are deleted with their partition.
  virtual Result<PurgeResult> purge_finished(EpochMs before, const PurgeCursor& from, int limit) = 0;
  // By `end`, without the last one, which holds everything later than all others.
  virtual Result<std::vector<Partition>> partitions() = 0;
  // Adds those of `partitions` (by `end`, each begins where the previous ends) that are later than all
  // existing ones; also completes an earlier interrupted call. Blocks others while it runs, and for a second
  // at most if it returns `busy`.
  virtual Result<PartitionsAdded> add_partitions(std::span<const Partition> partitions) = 0;
  // Drops a partition if none of its tasks is left. Blocks others like add_partitions.
  virtual Result<PartitionDrop> drop_partition(const Partition& partition) = 0;
  // Deletes attempts and bodies whose task is gone, from <= id < to, in order of ids: `limit` tasks at most.
  virtual Result<Swept> sweep(TaskId from, TaskId to, int limit) = 0;
  // Deletes audit rows and events older than `before`, and bulks that ended before it with their items:
  // `limit` rows at most.
  virtual Result<PurgedRecords> purge_records(EpochMs before, int limit) = 0;
};

}  // namespace rung
