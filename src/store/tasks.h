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

}  // namespace rung
