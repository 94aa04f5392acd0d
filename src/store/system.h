// The system itself, not tasks: events, risks in the settings of the server, what retention deletes.
// Thread, errors: store.h; server_risks() is a pure function.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/ids.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung {

// Something that happened to the system itself, not to a task: rung_events, the view retry_events.
struct SystemEvent {
  std::string kind;     // a constant word: "topology_repaired", "clock_step" ...
  std::string subject;  // what it happened to: a queue, an exchange, a node; may be ""
  std::string detail;   // for people
  // Given by the store; node: its name.
  std::int64_t id = 0;
  EpochMs at = {};
  std::string node = {};
};

// --- risks in a database server's settings: for `rung doctor`, and for the log at start.

// Global variables, names in lower case. `group_members`: the number of active members of a Group
// Replication, if known.
using ServerVariables = std::map<std::string, std::string>;

struct ServerRisk {
  std::string name;    // "database.wsrep": its name in `rung doctor`
  std::string what;    // a sentence
  std::string fix;     // the command, or the change, that fixes it
  bool serves = true;  // false: Rung cannot work with it
};
std::vector<ServerRisk> server_risks(const ServerVariables& variables);

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
