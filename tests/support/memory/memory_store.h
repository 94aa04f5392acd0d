// A store in memory, for tests: the semantics of src/store/store.h without a server. Several handles share
// one MemoryDb, as several connections share a database. Thread: MemoryDb: any; a handle: one at a time, as
// every Store.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "src/core/base/clock.h"
#include "src/store/store.h"
#include "tests/support/memory/memory_tables.h"

namespace rung {

// Faults that tests inject. Thread: the caller holds MemoryDb's lock.
class MemoryFaults {
 public:
  void fail_next(int calls, Error::Kind kind);
  void lose_next_answers(int calls) { lose_ = calls; }
  void make_unreadable(TaskId id) { unreadable_.insert(id); }
  void set_max_body(std::size_t bytes) { max_body_ = bytes; }

  // The error of a call that begins, or of one that has done its work.
  std::optional<Error> before_call();
  std::optional<Error> after_call();
  bool are_readable(std::span<const TaskId> ids) const;
  bool is_too_large(const Message& message) const { return message.body.size() > max_body_; }

 private:
  int fail_ = 0, lose_ = 0;  // calls
  Error::Kind fail_kind_ = Error::Kind::transient;
  std::size_t max_body_ = std::size_t{16} << 20U;
  std::set<TaskId> unreadable_;
};

class MemoryDb {
 public:
  // `seed`: for the jitter in decide().
  explicit MemoryDb(std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>(),
                    std::uint64_t seed = std::random_device{}());

  // The time is the wall clock of `clock` until it is set; from then on it changes only by these calls.
  EpochMs now() const;
  void set_now(EpochMs now);
  void advance(Ms by);

  // The next `calls` calls of any handle fail with `kind` before they do anything ...
  void fail_next(int calls, Error::Kind kind = Error::Kind::transient);
  // ... or do what they are asked and then fail, as a lost answer does.
  void lose_next_answers(int calls);
  // Reading the message of this task fails with a permanent error, and so does any batch with it.
  void make_unreadable(TaskId id);
  // The row of this queue's gates cannot be read whole until it is changed.
  void damage_gates(const std::string& queue);
  // Makes a backup, for tests, of nodes, shards, tasks, pauses and causes: the returned function restores
  // them to the present state.
  std::function<void()> back_up();
  // Claims are short if there are so many in one call.
  void set_short_claims(std::size_t from);
  // Bodies larger than this are Inserted::too_large.
  void set_max_body(std::size_t bytes);
  // The partitions' tables are in use: they cannot be changed. Returns how often that was tried.
  int use_partitions(bool yes);

 private:
  friend class MemoryStore;
  friend class MemoryTransactions;
  friend class MemoryIntakeRows;

  mutable std::mutex mutex_;
  // Guarded by mutex_. More than a dozen members, because there is one class of tables for each role of
  // Store. A struct around some of them would hold nothing together.
  std::function<EpochMs()> now_;
  std::mt19937_64 dice_;
  MemoryFaults faults_;
  bool migrated_ = false;
  bool partitions_in_use_ = false;
  int partition_changes_ = 0;  // that were tried meanwhile
  std::size_t short_claims_ = kShortClaims;
  std::map<std::string, std::string> settings_;
  MemoryLeases leases_;
  MemoryTasks tasks_;
  MemoryBulks bulks_;
  MemoryRecords records_;
  MemoryGates gates_;
  MemoryCauses causes_;
  MemoryCounts counts_;
  MemoryQueues queues_;
};

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDb> db);

}  // namespace rung
