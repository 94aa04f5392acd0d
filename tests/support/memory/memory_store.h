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
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/task_writer.h"
#include "tests/support/memory/memory_tables.h"

namespace rung {

// Faults that tests inject. Thread: the caller holds MemoryDb's lock.
struct MemoryFaults {
  // Throw the error of a call that begins, or of one that has done its work.
  void before_call();
  void after_call();
  void expect_readable(std::span<const TaskId> ids) const;

  int fail = 0, lose = 0;  // calls
  Error::Kind fail_kind = Error::Kind::transient;
  std::size_t max_body = std::size_t{16} << 20U;
  std::set<TaskId> unreadable;
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
  // Tasks whose NewRow::bytes() are more than this are Inserted::too_large.
  void set_max_body(std::size_t bytes);
  // The partitions' tables are in use: they cannot be changed. Returns how often that was tried.
  int use_partitions(bool yes);

 private:
  friend class MemoryStore;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::function<EpochMs()> now_;
  std::mt19937_64 dice_;
  MemoryFaults faults_;
  bool partitions_in_use_ = false;
  int partition_changes_ = 0;  // that were tried meanwhile
  std::size_t short_claims_ = kShortClaims;
  std::map<std::string, std::string> settings_;
  MemoryLeases leases_;
  MemoryTasks tasks_;
  MemoryBulks bulks_;
  MemoryRecords records_;
  // By queue.
  std::map<std::string, MemoryChanged<Pause>> pauses_;
  std::map<std::string, MemoryChanged<GateState>> gates_;
  AttachmentRecords attachments_;
  CauseBook cause_book_;                    // what processes know of causes
  std::map<std::string, CauseRow> causes_;  // without their counts: nothing here is folded or forgotten
  // By queue, length of the bucket, its beginning.
  std::map<std::tuple<std::string, Ms, EpochMs>, PromiseCounts> promises_;
  std::map<std::string, std::string> batches_;  // the latest, by kind and maker
};

// Its methods are in memory_reads.cc, and by subject in the other memory_*.cc, each with its tables
// (memory_tables.h). A transaction holds the MemoryDb's lock. Nothing is undone: whatever may end a
// transaction or repeat it is thrown before its first write. Thread: as Store says, one at a time. list()
// returns the newest first, whatever the filter's order is.
class MemoryStore : public TaskWriter {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDb> db)
      : TaskWriter({db, &db->cause_book_}), shared_(std::move(db)), db_(*shared_) {}

  EpochUs clock() override { return EpochUs{db_.now().ms * 1000}; }
  EpochMs now() override {
    return call([&] { return db_.now_(); });
  }

  int register_node(const NodeIdentity& identity, Ms ttl) override;
  Beat heartbeat(int node, std::uint64_t incarnation, Ms ttl, const std::vector<HealthProblem>& problems,
                 BrokerLink link = BrokerLink::up, const std::string& config = {}) override;
  void leave(int node, std::uint64_t incarnation) override;
  std::vector<NodeRow> live_nodes() override;
  std::vector<ShardRow> shards() override;
  std::vector<Lease> acquire(int node, std::uint64_t incarnation, std::span<const int> shards, Ms ttl,
                             std::uint64_t above = 0) override;
  std::vector<Lease> renew(int node, std::span<const Lease> leases, Ms ttl) override;
  void release(int node, std::span<const Lease> leases) override;

  Claimed claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                std::size_t most_bytes) override;
  std::vector<TaskId> short_claims(std::span<const Lease> leases) override;
  std::vector<StoredMessage> messages(std::span<const TaskId> ids) override;
  std::vector<DueEntry> due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                            EpochMs until, int per_shard, std::span<const std::string> without = {}) override;
  WorkWaiting work_waiting(std::span<const int> shards, EpochMs scheduled_until, EpochMs until) override;
  std::vector<DueEntry> stranded(std::span<const Lease> leases, int limit) override;

  Bulk create_bulk(const NewBulk& bulk) override;
  std::optional<Bulk> bulk(std::int64_t id) override;
  std::optional<Bulk> set_bulk(const BulkControl& control) override;
  std::optional<Bulk> take_bulk(const std::string& runner, Ms ttl) override;
  std::vector<TaskId> bulk_next(const BulkStep& step, int limit) override;
  std::vector<SentTask> sent_by_bulk(std::int64_t id, int limit) override;
  void judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) override;

  Pause pause(const NewPause& wish) override;
  Resumed resume(const std::string& queue, const std::string& who, const std::string& reason) override;
  std::vector<Pause> pauses(EpochMs changed_since = {}) override;
  std::vector<GateState> gate_states(EpochMs changed_since = {}) override;
  std::vector<GateState> change_gates(const GateBatch& batch) override;
  std::map<TaskId, std::string> header_values(std::span<const TaskId> ids,
                                              const std::string& header) override;

  AttachmentRecords attachments(std::span<const std::string> queues) override;
  void see_attachments(std::span<const AttachmentSighting> seen) override;
  std::map<TaskId, Awaiting> awaiting(std::span<const TaskId> ids) override;
  std::vector<std::string> awaiting_queues(std::size_t most) override;

  CausesFolded fold_causes(int limit) override;
  void read_causes() override;

  void add_counts(const CountBatch& batch) override;
  int forget(EpochMs now, int limit) override;

  PurgeResult purge_finished(EpochMs before, const PurgeCursor& from, int limit) override;
  std::vector<Partition> partitions() override {
    return call([&] { return db_.tasks_.partitions; });
  }
  PartitionsAdded add_partitions(std::span<const Partition> partitions) override;
  PartitionDrop drop_partition(const Partition& partition) override;
  Swept sweep(TaskId from, TaskId to, int limit) override;
  PurgedRecords purge_records(EpochMs before, int limit) override;

  void record_event(int node, const SystemEvent& event) override;
  std::vector<SystemEvent> events(int limit);  // the newest first
  std::string setting(std::string_view name, std::string_view if_absent) override;
  void set_setting(std::string_view name, std::string_view value) override;

  std::vector<AuditRow> audit(TaskId id) override;

  std::vector<TaskRow> list(const Filter& filter) override;
  std::optional<TaskRow> find(TaskId id) override;
  std::vector<AttemptRow> histories(std::span<const TaskId> ids) override;
  std::vector<KnownTask> known(std::span<const TaskId> ids) override;

  // --- for tests and the simulator's judge; as MysqlStore has them
  std::vector<NodeRow> nodes();
  std::vector<PromiseRow> promises();

 protected:
  // For a database that is far away (tests/simulator): before a call takes effect, and after. What they throw
  // is the call's answer. Calls that write tasks and clock() have neither.
  virtual void before_call() {}
  virtual void after_call() {}

 private:
  // Runs `body` under the lock, with the faults that tests have set.
  template <typename F>
  auto call(F body) -> decltype(body()) {
    before_call();
    Result<decltype(body())> out;
    {
      const std::lock_guard lock(db_.mutex_);
      db_.faults_.before_call();
      out = result_of(body);
      db_.faults_.after_call();
    }
    after_call();
    return or_throw(std::move(out));
  }

  TaskRow row_of(const MemoryTask& stored) const {
    return {stored.task, db_.leases_.name(stored.task.node),
            stored.message->properties.correlation_id.value_or("")};
  }
  // By state, queue, tag, silence_held and body_stored; the filter's other conditions are not looked at.
  static bool shows(const Filter& filter, const Task& task);
  // Inside call():
  std::optional<Pause> latest_pause(const std::string& queue) const;
  void write_pause(const Pause& pause, AuditRow change, const std::string& reason);
  GateState& gate_state(const std::string& queue);  // is changed; creates it
  // Whether the batch was applied before; from now on it was.
  bool repeats(const std::string& kind, const std::string& maker, const std::string& id);
  void record(SystemEvent event) { db_.records_.write(std::move(event), db_.now_()); }
  void bulk_ended(const Bulk& bulk);

  // --- Tables
  void transaction(const std::function<void()>& body, std::string_view name) override;

  std::vector<Lease> share_leases(const Fence& fence) override;
  void guard_leases(const Fence& fence) override;
  std::vector<Lease> current_leases() override;
  Locked lock(const Fence& fence, std::span<const TaskId> ids) override;

  void write_tasks(std::span<const ChangedTask> tasks) override;
  bool write_unread(std::span<const ChangedTask> tasks, const Fence& fence) override;
  void write_attempts(const AttemptChanges& attempts, bool repeated) override;
  void replace_message(const Task& task, const MessagePtr& message) override;
  void write_audit(std::span<const AuditRow> rows) override;
  void write_causes(const CauseChanges& changes, int node, EpochMs now) override;
  bool step_bulk(const BulkStep& step, const BulkStepCounts& counts) override;
  void keep_sent(const BulkStep& step, std::span<const TaskId> changed) override;

  std::size_t largest_row() const override { return db_.faults_.max_body; }
  std::vector<SameId> find_ids(std::span<const NewRow> rows) override;
  std::vector<SameKey> find_keys(std::span<const NewRow> rows) override;
  std::int64_t free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) override;
  void insert_rows(std::span<const NewRow* const> rows) override;
  void read_messages(std::span<const TaskId> ids, std::vector<StoredMessage>& into) override;
  double random() override;
  std::size_t short_claims_from() const override;

  const std::shared_ptr<MemoryDb> shared_;
  MemoryDb& db_;
  bool wrote_ = false;  // in this transaction
};

std::unique_ptr<MemoryStore> open_memory_store(std::shared_ptr<MemoryDb> db);

}  // namespace rung
