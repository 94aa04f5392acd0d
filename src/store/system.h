// The system itself, not tasks: nodes and their leases of shards, events, what retention deletes. Thread,
// errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/health.h"
#include "src/core/base/ids.h"
#include "src/core/base/time.h"

namespace rung {

struct Lease {
  int shard = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Lease&) const = default;
};

struct ShardRow {
  int shard = 0;
  int owner = 0;  // rung_nodes.id; 0 = no owner
  std::uint64_t epoch = 0;
  std::optional<EpochMs> expires_at;
  std::optional<EpochMs> acquired_at;
  std::string owner_name = {};  // "" = no owner
  // When the shard was last taken from an owner that had not given it back: its lease had expired.
  std::optional<EpochMs> taken_over_at = {};
};

// An instance's connection for publishing. Persisted as numbers. NOTE: only append.
enum class BrokerLink : std::uint8_t {
  lost = 0,  // down for longer than a lease: it gets no shards while another instance is `up`
  up = 1,
  interrupted = 2,  // down for a short time: it keeps its shards, but no instance hands shards over to it
};

struct NodeRow {
  int id = 0;
  std::string name;
  EpochMs started_at, seen_at, expires_at;
  std::string version, address;         // address: host and pid
  std::vector<HealthProblem> problems;  // as of its last heartbeat
  BrokerLink link = BrokerLink::up;     // the same
  std::string config = {};              // the same: a fingerprint of its config; "" = not known
};

// The overdue tasks of a shard. `oldest` = the earliest due time among them; that task may just have been
// claimed.
struct ShardOverdue {
  int shard = 0;
  std::int64_t tasks = 0;
  EpochMs oldest;
};

// The answer of a heartbeat. still_ours = false: another process took the name, or the database went back in
// time. `now` = database time just after the beat. `name`, `beats`: of the row now; each registration and
// each beat adds one. If `beats` is not higher than after our last beat, the row is an older one. No such
// row: "" and 0. `live`: as live_nodes() says.
struct Beat {
  bool still_ours = false;
  EpochMs now;
  std::string name = {};
  std::uint64_t beats = 0;
  std::vector<NodeRow> live = {};
};

struct NodeIdentity {
  std::string name, version, address;
  std::uint64_t incarnation = 0;  // random, of this process
};

// --- events

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
