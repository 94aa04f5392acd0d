// Writes tasks, and finds those that are due. Thread, errors: store.h.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"
#include "src/store/leases.h"

namespace rung {

// The writer's identity, checked against the leases, under a lock, in the write's transaction.
struct Fence {
  int node = 0;
  std::vector<Lease> leases;  // those the caller believes it holds; the store checks which it does
  bool by_hand = false;       // insert() only: needs no lease; the shard's owner finds the row by its sweep
};

// The same with the leases of these items' shards alone: each lease costs the database a row lock.
template <typename Items, typename ShardOf>
Fence narrowed(const Fence& fence, const Items& items, ShardOf shard_of) {
  std::bitset<kShards> shards;
  for (const auto& item : items) shards.set(static_cast<std::size_t>(shard_of(item)));
  Fence out{fence.node, {}, fence.by_hand};
  std::ranges::copy_if(fence.leases, std::back_inserter(out.leases),
                       [&](const Lease& l) { return shards.test(static_cast<std::size_t>(l.shard)); });
  return out;
}

struct Inserted {
  enum class How {
    inserted,
    duplicate,  // the same intake was inserted before: `id` is its row
    not_held,   // the shard's lease is gone: nothing was written, also not by an earlier try of the same call
    id_taken,   // another message has this id already (nodes 1024 apart, a clock that stepped back): nothing
                // was written; the same message under a new id will be
    too_large,  // the database does not take a body of this size: nothing was written, the others were
  };
  How how = How::inserted;
  TaskId id;
};

// The answer to an event whose Decision::child was not inserted.
Decision refuse_child(const Task& task, Inserted::How how);

struct StoredMessage {
  TaskId id;
  MessagePtr message;       // nullptr: its row cannot be read, e.g. because it was changed by hand ...
  std::string broken = {};  // ... and why
};

// What a task's message takes in memory, approximate.
inline std::size_t message_bytes(const Task& task) { return static_cast<std::size_t>(task.body_bytes) + 512; }

struct Claimed {
  std::vector<Decision> decisions;      // in the order of the events
  std::vector<StoredMessage> messages;  // of the first claimed tasks
};
// The claimed tasks, in order, whose messages take at most `most_bytes` together; at least one.
std::vector<TaskId> first_claimed(std::span<const Decision> decisions, std::size_t most_bytes);

// From so many claims in one call on, claim() writes short ones (machine.h). Fewer: a message that comes
// alone costs round trips and commits, not rows. Measured by `tests/bench/compare --only W3`.
inline constexpr std::size_t kShortClaims = 32;

struct DueEntry {
  TaskId id;
  int shard = 0;
  EpochMs at;
  std::string queue;
  bool operator==(const DueEntry&) const = default;
};

// Which kinds of work wait in the tables.
struct WorkWaiting {
  bool scheduled = false;  // due rows. Claimed ones count, too
  bool awaiting = false;   // expired silence
  bool parked = false;     // copies owed to <prefix>.parked
  bool bulks = false;      // a step of a bulk is due, perhaps another instance's
  bool cause_changes = false;
  bool operator==(const WorkWaiting&) const = default;
};

struct BulkStep;

// The tasks themselves: every change of a task goes through insert() and apply().
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  // One transaction, in order of ids; results in the order of `tasks`.
  virtual Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) = 0;
  // Locks the tasks in order of ids, calls `decide` for each event (in order within a task), and writes the
  // results. If every event has `expected`, it may skip reading the rows, and then writes only rows that are
  // unchanged. No such task: Decision{refused, "no such task"}. Results in the order of `events`. An applied
  // event by hand gets an audit row. Decision::child is inserted too, or the event is refused. `step`: the
  // events are the next of that bulk (bulk_next), whose progress is written with them.
  virtual Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                              const Decider& decide, const BulkStep* step = nullptr) = 0;
  // apply() of claims. Reads the messages of first_claimed() in the same round trip. Many claims are short:
  // their tasks' rows are written by the confirm, or by write_claims().
  virtual Result<Claimed> claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                                std::size_t most_bytes) = 0;
  // Writes the claims of those that have a short one into their rows, under whichever lease they were made.
  virtual Result<void> write_claims(std::span<const TaskId> ids) = 0;
  // The tasks of these shards with a short claim under an epoch older than the lease's. Reads all that are
  // due.
  virtual Result<std::vector<TaskId>> short_claims(std::span<const Lease> leases) = 0;
  // Those that exist, in any order. One unreadable row does not fail the others.
  virtual Result<std::vector<StoredMessage>> messages(std::span<const TaskId> ids) = 0;

  // --- due tasks. Rows of `state` in `shards` with after < next_at <= until (no lower bound if `after` is
  // none), earliest first within each shard, at most `per_shard` of each. Those of the queues `without` are
  // left out, but the search still reads past them.
  virtual Result<std::vector<DueEntry>> due(State state, std::span<const int> shards,
                                            std::optional<EpochMs> after, EpochMs until, int per_shard,
                                            std::span<const std::string> without = {}) = 0;
  // One statement, for a caller that asks all the time: whether due() and others have anything to return.
  // `until`: of all states but scheduled.
  virtual Result<WorkWaiting> work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                           EpochMs until) = 0;
  // Rows left in `publishing` under an epoch older than the lease's. Short claims: write_claims() first.
  virtual Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) = 0;
};

}  // namespace rung
