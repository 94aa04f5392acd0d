// What the bridge and the command line ask of a store. mysql/ does it with MySQL and MariaDB; memory/ for
// tests.
//
// Thread: a Store is one connection, for one thread at a time. Every call blocks, is one transaction, and may
// be repeated after a transient error: writes are keyed (ids made by the caller) or guarded (decide()), so
// that a repeat after a lost answer changes nothing twice. Errors: transient = try again (server away,
// deadlock, lock wait); permanent = will fail again (access denied, too large, newer schema).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/machine.h"
#include "src/core/result.h"
#include "src/core/task.h"

namespace rung {

struct StoreOptions {
  std::string url;            // mysql://user:password@host:port/schema
  std::string password_file;  // its first line, instead of the URL's password
  std::string tls = "off";    // off | required (no check) is not offered: off | verify
  std::string ca, cert, key;  // for tls: verify, which checks CA and host
  bool migrate = true;
  int connections = 3;
  Ms timeout{std::chrono::seconds{10}};  // connect, read, write
};

struct Lease {
  int shard = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Lease&) const = default;
};

struct ShardRow {
  int shard = 0;
  int owner = 0;  // rung_nodes.id; 0 = nobody
  std::uint64_t epoch = 0;
  std::optional<EpochMs> expires_at;
  std::optional<EpochMs> acquired_at;
};

struct NodeRow {
  int id = 0;
  std::string name;
  EpochMs started_at, seen_at, expires_at;
  std::string version, address;  // address: host and pid
};

// What of a shard should have gone out by now. `oldest` = the longest due of it.
struct ShardOverdue {
  int shard = 0;
  std::int64_t tasks = 0;
  EpochMs oldest;
};

struct NodeIdentity {
  std::string name, version, address;
  std::uint64_t incarnation = 0;  // random, of this process
};

// On whose behalf a write is made: checked against the leases, under a lock, in the write's transaction.
struct Fence {
  int node = 0;
  std::vector<Lease> leases;  // those the caller believes it holds; the store finds out which it does
};

struct Inserted {
  enum class How {
    inserted,
    duplicate,  // the same intake was here before: `id` is its row
    not_held,   // the shard's lease is gone: nothing was written
    id_taken,   // another message has this id already (nodes 1024 apart, a clock that stepped back): nothing
                // was written; the same message under a new id will be
    too_large,  // the database does not take a body of this size: nothing was written, the others were
  };
  How how = How::inserted;
  TaskId id;
};

struct DueEntry {
  TaskId id;
  int shard = 0;
  EpochMs at;
  std::string queue;
  bool operator==(const DueEntry&) const = default;
};

// Which rows list() shows. Empty = all; the newest first.
struct Filter {
  std::optional<State> state;
  std::optional<Kind> kind;
  std::string queue, tag, message_id, ladder;
  std::string error_contains;
  std::optional<EpochMs> due_before, due_after, created_before, created_after;
  std::optional<TaskId> below;  // cursor: ids smaller than this
  int limit = 50;
};

// retry_current, retry_history, for people: with the node's name instead of its number.
struct TaskRow {
  Task task;
  std::string node;
};
struct AttemptRow {
  Attempt attempt;
  std::string queue, message_id, node;
};
struct QueueStat {  // retry_by_queue
  std::string queue;
  State state = State::scheduled;
  std::int64_t tasks = 0;
  std::optional<EpochMs> oldest_due_at;
  std::int64_t overdue = 0;
};

// decide() with the rule book and the dice bound to it; called inside the transaction, once an event.
using Decider = std::function<Decision(const Task&, const Happening&, const Circumstances&)>;

class Store {
 public:
  virtual ~Store() = default;

  // --- schema
  // Creates or upgrades; two at once are safe; refuses a schema newer than this program knows. Returns the
  // names of the migrations it applied.
  virtual Result<std::vector<std::string>> migrate() = 0;
  // Permanent error that says "rung migrate" where the schema is not exactly what this program needs.
  virtual Result<void> check_schema() = 0;
  virtual Result<EpochMs> now() = 0;

  // --- nodes and leases (src/bridge/shards decides, this writes)
  // Takes the name: the id is the same each time. A former incarnation's heartbeat fails from now on.
  virtual Result<int> register_node(const NodeIdentity& identity, Ms ttl) = 0;
  // false: another process took the name. `now` = database time of the beat.
  struct Beat {
    bool still_ours = false;
    EpochMs now;
  };
  virtual Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl) = 0;
  // Its heartbeat ends, and whatever it owns is free, also what nobody told it that it took. Nothing happens
  // where another process has the name by now.
  virtual Result<void> leave(int node, std::uint64_t incarnation) = 0;
  virtual Result<std::vector<NodeRow>> live_nodes() = 0;
  virtual Result<std::vector<ShardRow>> shards() = 0;
  // Takes those of `shards` that are free or expired, and those owned by `node` itself (under an older
  // epoch). Each gets a new epoch. Returns what was taken: nothing where another process has the node's name
  // by now, and never a shard in which somebody's write is open; such a one is passed over, not waited for.
  virtual Result<std::vector<Lease>> acquire(int node, std::uint64_t incarnation, std::span<const int> shards,
                                             Ms ttl) = 0;
  // Returns those still held, now until now + ttl. `now` as in Beat.
  struct Renewal {
    std::vector<Lease> held;
    EpochMs now;
  };
  virtual Result<Renewal> renew(int node, std::span<const Lease> leases, Ms ttl) = 0;
  virtual Result<void> release(int node, std::span<const Lease> leases) = 0;

  // --- tasks
  // One transaction, in order of ids; results in the order of `tasks`.
  virtual Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) = 0;
  // Locks the tasks in order of ids, asks `decide` for each event (events for one task in their order),
  // writes. A task that does not exist: Decision{refused, "no such task"}. Results in the order of `events`.
  virtual Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                              const Decider& decide) = 0;
  // Those that exist, in any order.
  virtual Result<std::vector<std::pair<TaskId, MessagePtr>>> messages(std::span<const TaskId> ids) = 0;

  // --- what has to be done. Rows of `state` in `shards` with after < next_at <= until (no lower bound where
  // `after` is none), earliest first within each shard, at most `per_shard` of each.
  virtual Result<std::vector<DueEntry>> due(State state, std::span<const int> shards,
                                            std::optional<EpochMs> after, EpochMs until, int per_shard) = 0;
  // Rows left in `publishing` under an epoch older than the lease's.
  virtual Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) = 0;
  // How many rows of `state` the shards hold, at most `most` (counting stops there).
  virtual Result<std::int64_t> count(State state, std::span<const int> shards, std::int64_t most) = 0;

  // --- for people
  virtual Result<std::vector<TaskRow>> list(const Filter& filter) = 0;
  virtual Result<std::optional<TaskRow>> find(TaskId id) = 0;
  virtual Result<std::vector<AttemptRow>> history(TaskId id) = 0;  // by attempt
  virtual Result<std::string> origin(TaskId id) = 0;               // NewTask::origin_json; not_found
  virtual Result<std::vector<QueueStat>> by_queue() = 0;
  // Every node that ever was, by id. expires_at is over: it died, or left where seen_at is not before it.
  virtual Result<std::vector<NodeRow>> nodes() = 0;
  // Scheduled and due, by the database's clock; a shard that has none is left out. By shard.
  virtual Result<std::vector<ShardOverdue>> overdue() = 0;
};

// Makes a connection; called in the thread that will use it, again after a transient error.
using StoreFactory = std::function<Result<std::unique_ptr<Store>>()>;

}  // namespace rung
