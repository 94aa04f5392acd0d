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

}  // namespace rung
