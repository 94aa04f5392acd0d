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
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/core/base/clock.h"
#include "src/store/store.h"

namespace rung {

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
  // Makes a backup, for tests: the returned function restores everything to the present state.
  std::function<void()> back_up();
  // As StoreOptions::events.
  void publish_events(OutgoingKinds kinds);
  // Bodies larger than this are Inserted::too_large.
  void set_max_body(std::size_t bytes);

 private:
  friend class MemoryStore;
  struct Node {
    NodeRow row;
    std::uint64_t incarnation = 0;
    std::uint64_t beats = 0;
  };
  struct Row {
    Task task;
    MessagePtr message;
    std::string origin, intake_key;
    std::map<int, Attempt> attempts;
  };
  struct BulkRow {
    Bulk bulk;
    std::vector<TaskId> ids;  // ascending
    EpochMs until, next;
    bool gone = false;                   // purged
    std::map<TaskId, int> changed = {};  // the last attempt before
  };
  struct Rate {
    SendSchedule schedule;
    std::vector<Reservation> reserved = {};  // of the queue's own
    EpochMs filled_at = {};                  // as the column
  };
  struct Cause {
    CauseRow row;
    std::map<EpochMs, std::int64_t> failures = {};  // by bucket
    std::int64_t ignored_rate = 0;
  };
  EpochMs now_locked() const;

  mutable std::mutex mutex_;
  const std::shared_ptr<const Clock> clock_;
  // Guarded by mutex_.
  std::mt19937_64 dice_;
  std::optional<EpochMs> now_;
  int fail_ = 0, lose_ = 0;
  Error::Kind fail_kind_ = Error::Kind::transient;
  std::size_t max_body_ = std::size_t{16} << 20U;
  std::set<TaskId> unreadable_;
  bool migrated_ = false;
  std::vector<Node> nodes_;  // id = index + 1
  std::vector<ShardRow> shards_;
  std::map<TaskId, Row> tasks_;
  std::unordered_map<std::string, TaskId> keys_;
  std::map<TaskId, MessagePtr> left_;  // bodies of purged tasks
  std::vector<Partition> partitions_;  // by end
  std::int64_t audited_ = 0;           // rows ever
  std::vector<AuditRow> audit_;
  std::vector<SystemEvent> events_;
  OutgoingKinds outgoing_kinds_;
  std::int64_t outgoing_ever_ = 0;
  std::vector<OutgoingEvent> outgoing_;
  std::map<std::string, std::string> settings_;
  std::vector<BulkRow> bulks_;              // id = index + 1
  std::map<std::string, Pause> pauses_;     // by queue
  std::map<std::string, GateState> gates_;  // by queue
  std::map<std::string, EpochMs> pauses_changed_, gates_changed_;
  std::map<std::string, std::string> gate_batches_;  // by maker
  std::map<std::string, Silence> named_queues_;      // that the config names
  std::map<std::string, RemovedQueue> removed_queues_;
  CauseBook cause_book_;
  std::map<std::string, Cause> causes_;
  std::map<std::tuple<std::string, Ms, EpochMs>, PromiseCounts> promises_;  // by queue, length, since
  std::map<std::pair<std::string, EpochMs>, ActivityCounts> activity_;      // by queue, minute
  std::map<std::string, std::string> count_batches_;                        // by maker
  std::map<std::string, AttachmentRecord> attachments_;                     // by queue
  std::map<std::pair<std::string, std::string>, Rate> rates_;  // by queue and value; "" = the queue's own
};

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDb> db);

}  // namespace rung
