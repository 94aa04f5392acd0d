// The system itself, not tasks: nodes and their leases of shards, events, what retention deletes, counts.
// Thread, errors: store.h.
#pragma once

#include <chrono>
#include <cstddef>
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

// --- what instances have counted of their deliveries, by queue. They add it every few seconds; one that is
// killed has not added its last.

// --- promises of lateness (late_by): how many deliveries of a queue kept theirs, in buckets of five minutes,
// for the last hour, and of an hour, for the last day.

// Confirmed deliveries of a queue with a promise.
struct PromiseCounts {
  std::int64_t in_time = 0;
  std::int64_t late = 0;
  std::int64_t gated = 0;  // late, and only because of a gate
  bool operator==(const PromiseCounts&) const = default;
  PromiseCounts& operator+=(const PromiseCounts& other) {
    in_time += other.in_time;
    late += other.late;
    gated += other.gated;
    return *this;
  }
  PromiseCounts operator-(const PromiseCounts& other) const {
    return {in_time - other.in_time, late - other.late, gated - other.gated};
  }
};

inline constexpr Ms kPromiseMinutes{std::chrono::minutes{5}};
inline constexpr Ms kPromiseHour{std::chrono::hours{1}};
inline constexpr Ms kPromiseDay{std::chrono::hours{24}};
// The beginning of the bucket of `at`.
inline EpochMs bucket_of(EpochMs at, Ms length) { return {at.ms - at.ms % length.count()}; }

// What the last hour and the last day have; they begin with a bucket, so that the oldest may be cut off.
struct PromiseRow {
  std::string queue;
  PromiseCounts last_hour, last_day;
};

// --- activity: how many deliveries of a queue failed, were retried and succeeded, by minute, for 30 days.

struct ActivityCounts {
  std::int64_t failed = 0;     // first failures and later ones
  std::int64_t retried = 0;    // retries that the broker confirmed
  std::int64_t succeeded = 0;  // deliveries that were reported, or presumed, to have succeeded
  bool operator==(const ActivityCounts&) const = default;
  ActivityCounts& operator+=(const ActivityCounts& other) {
    failed += other.failed;
    retried += other.retried;
    succeeded += other.succeeded;
    return *this;
  }
  ActivityCounts operator-(const ActivityCounts& other) const {
    return {failed - other.failed, retried - other.retried, succeeded - other.succeeded};
  }
};

inline constexpr Ms kActivityMinute{std::chrono::minutes{1}};
inline constexpr Ms kActivityKept{std::chrono::hours{24 * 30}};
// The queue of the sums: a month of all queues is read as fast as that of one.
inline constexpr const char* kAllQueues = "(all)";
// The queue of those that have no counts of their own.
inline constexpr const char* kOtherQueues = "(other)";

struct ActivityRange {
  std::string queue = kAllQueues;
  EpochMs from = {}, until = {};  // begin with a step; without `until`
  Ms step = kActivityMinute;      // whole minutes
};
struct ActivityPoint {
  EpochMs at;  // where its step begins
  ActivityCounts counts;
  bool operator==(const ActivityPoint&) const = default;
};

// What an instance has counted since its batch before.
struct CountBatch {
  struct Change {
    std::string queue;  // or a pattern, or "(other)": bridge::FlowCounts
    PromiseCounts promised = {};
    ActivityCounts activity = {};
  };
  static constexpr std::size_t kMost = 2000;
  std::vector<Change> changes = {};  // each queue once, at most kMost
  EpochMs at = {};                   // decides the buckets
  // As GateBatch: the latest of each maker is kept, so that repeating it changes nothing.
  std::string maker = {}, id = {};
};
inline ActivityCounts sum_of(const CountBatch& batch) {  // for kAllQueues
  ActivityCounts sum;
  for (const CountBatch::Change& change : batch.changes) sum += change.activity;
  return sum;
}

}  // namespace rung
