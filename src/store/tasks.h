// Writing tasks, and finding what has to be done about them. Thread, errors: store.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/decider.h"
#include "src/core/machine.h"
#include "src/core/result.h"
#include "src/core/task.h"
#include "src/store/leases.h"

namespace rung {

// On whose behalf a write is made: checked against the leases, under a lock, in the write's transaction.
struct Fence {
  int node = 0;
  std::vector<Lease> leases;  // those the caller believes it holds; the store finds out which it does
  bool by_hand = false;  // insert() only: no lease is asked for; the shard's owner finds the row by its sweep
};

struct Inserted {
  enum class How {
    inserted,
    duplicate,  // the same intake was here before: `id` is its row
    not_held,   // the shard's lease is gone: nothing was written, also not by an earlier try of the same call
    id_taken,   // another message has this id already (nodes 1024 apart, a clock that stepped back): nothing
                // was written; the same message under a new id will be
    too_large,  // the database does not take a body of this size: nothing was written, the others were
  };
  How how = How::inserted;
  TaskId id;
};

struct StoredMessage {
  TaskId id;
  MessagePtr message;       // nullptr: its row cannot be read, e.g. because it was changed by hand ...
  std::string broken = {};  // ... and why
};

struct DueEntry {
  TaskId id;
  int shard = 0;
  EpochMs at;
  std::string queue;
  bool operator==(const DueEntry&) const = default;
};

struct BulkStep;

// The tasks themselves: every change of a task goes through insert() and apply().
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  // One transaction, in order of ids; results in the order of `tasks`.
  virtual Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) = 0;
  // Locks the tasks in order of ids (or, where all events say how theirs stood, writes those that still do),
  // asks `decide` for each event, those of one task in their order, writes. No such task: Decision{refused,
  // "no such task"}. Results in the order of `events`. An event by hand: its audit row is written with what
  // was applied. `step`: the events are the next of that bulk (bulk_next), which has moved past them then.
  virtual Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                              const Decider& decide, const BulkStep* step = nullptr) = 0;
  // Those that exist, in any order. One that cannot be read fails none of the others.
  virtual Result<std::vector<StoredMessage>> messages(std::span<const TaskId> ids) = 0;

  // --- what has to be done. Rows of `state` in `shards` with after < next_at <= until (no lower bound where
  // `after` is none), earliest first within each shard, at most `per_shard` of each.
  virtual Result<std::vector<DueEntry>> due(State state, std::span<const int> shards,
                                            std::optional<EpochMs> after, EpochMs until, int per_shard) = 0;
  // Rows left in `publishing` under an epoch older than the lease's.
  virtual Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) = 0;
};

}  // namespace rung
