// MemoryStore. Its methods are in memory_reads.cc, and by role in the other memory_*.cc, each with the tables
// of its role (memory_tables.h); TaskWriter writes tasks, by memory_transactions.h. Thread: as Store says,
// one at a time; the MemoryDb has its own lock.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/store/task_writer.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/memory/memory_transactions.h"

namespace rung {

class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDb> db)
      : shared_(std::move(db)),
        db_(*shared_),
        transactions_(db_),
        writer_(transactions_, db_.causes_.book()) {}

  Result<std::string> migrate() override {
    return call([&]() -> std::string { return std::exchange(db_.migrated_, true) ? "" : "schema"; });
  }
  Result<void> check_schema() override {
    auto migrated = call([&] { return db_.migrated_; });
    if (!migrated) return tl::unexpected(migrated.error());
    if (!*migrated) return permanent("the schema is missing: run `rung migrate`");
    return {};
  }
  Result<EpochUs> clock() override { return EpochUs{db_.now().ms * 1000}; }
  Result<EpochMs> now() override {
    return call([&] { return db_.now_(); });
  }

  Result<int> register_node(const NodeIdentity& identity, Ms ttl) override;
  Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                         const std::vector<HealthProblem>& problems, BrokerLink link,
                         const std::string& config) override;
  Result<void> leave(int node, std::uint64_t incarnation) override;
  Result<std::vector<NodeRow>> live_nodes() override;
  Result<std::vector<ShardRow>> shards() override;
  Result<std::vector<Lease>> acquire(int node, std::uint64_t incarnation, std::span<const int> shards, Ms ttl,
                                     std::uint64_t above) override;
  Result<std::vector<Lease>> renew(int node, std::span<const Lease> leases, Ms ttl) override;
  Result<void> release(int node, std::span<const Lease> leases) override;

  Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) override {
    return writer_.insert(tasks, fence);
  }
  Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                      const Decider& decide, const BulkStep* step) override {
    return writer_.apply(events, fence, decide, step);
  }
  Result<Claimed> claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                        std::size_t most_bytes) override;
  Result<void> write_claims(std::span<const TaskId> ids) override { return writer_.write_claims(ids); }
  Result<std::vector<TaskId>> short_claims(std::span<const Lease> leases) override;
  Result<std::vector<StoredMessage>> messages(std::span<const TaskId> ids) override;
  Result<std::vector<DueEntry>> due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                    EpochMs until, int per_shard,
                                    std::span<const std::string> without) override;
  Result<WorkWaiting> work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                   EpochMs until) override;
  Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) override;

  Result<Bulk> create_bulk(const NewBulk& bulk) override;
  Result<std::optional<Bulk>> bulk(std::int64_t id) override;
  Result<std::vector<Bulk>> bulks(int limit, std::optional<std::int64_t> below) override;
  Result<std::optional<Bulk>> set_bulk(const BulkControl& control) override;
  Result<std::optional<Bulk>> take_bulk(const std::string& runner, Ms ttl,
                                        std::optional<std::int64_t> only) override;
  Result<std::vector<TaskId>> bulk_next(const BulkStep& step, int limit) override;
  Result<std::vector<SentTask>> sent_by_bulk(std::int64_t id, int limit) override;
  Result<void> judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) override;

  Result<Pause> pause(const NewPause& wish) override;
  Result<Resumed> resume(const std::string& queue, const std::string& who,
                         const std::string& reason) override;
  Result<std::vector<Pause>> pauses(EpochMs changed_since) override;
  Result<std::vector<QueueGate>> queue_gates() override;
  Result<std::vector<GateState>> gate_states(EpochMs changed_since) override;
  Result<std::vector<GateState>> change_gates(const GateBatch& batch) override;
  Result<std::map<TaskId, std::string>> header_values(std::span<const TaskId> ids,
                                                      const std::string& header) override;
  Result<void> forget_gates(EpochMs before) override;

  Result<std::vector<AttachmentRecord>> attachments(std::span<const std::string> queues) override;
  Result<std::vector<AttachmentRecord>> see_attachments(std::span<const AttachmentSighting> seen) override;
  Result<std::map<TaskId, Awaiting>> awaiting(std::span<const TaskId> ids) override;
  Result<std::vector<std::string>> awaiting_queues(std::size_t most) override;
  Result<std::map<std::string, std::int64_t>> held_silences() override;

  Result<std::vector<CauseRow>> causes(const CauseFilter& filter) override;
  Result<std::optional<CauseRow>> triage(const std::string& cause, const CauseTriage& triage,
                                         const std::string& who) override;
  Result<Totals> cause_totals() override;
  Result<CausesFolded> fold_causes(int limit) override;
  Result<void> read_causes() override;
  Result<int> forget_causes(EpochMs before, int limit) override;

  Result<LiveAnswer> live(const LiveQuestion& question) override;

  Result<void> add_counts(const CountBatch& batch) override;
  Result<std::vector<PromiseRow>> promises() override;
  Result<std::vector<ActivityPoint>> activity(const ActivityRange& range) override;
  Result<int> forget_counts(EpochMs now, int limit) override;

  Result<PurgeResult> purge_finished(EpochMs before, const PurgeCursor& from, int limit) override;
  Result<std::vector<Partition>> partitions() override {
    return call([&] { return db_.tasks_.partitions(); });
  }
  Result<PartitionsAdded> add_partitions(std::span<const Partition> partitions) override;
  Result<PartitionDrop> drop_partition(const Partition& partition) override;
  Result<Swept> sweep(TaskId from, TaskId to, int limit) override;
  Result<PurgedRecords> purge_records(EpochMs before, int limit) override;

  Result<ServerVariables> server_variables() override { return ServerVariables{}; }
  Result<void> record_event(int node, const SystemEvent& event) override;
  Result<std::vector<SystemEvent>> events(int limit) override;
  Result<std::string> setting(std::string_view name, std::string_view if_absent) override;
  Result<void> set_setting(std::string_view name, std::string_view value) override;

  Result<std::int64_t> count(const Filter& filter, std::int64_t most) override;
  Result<TaskCounts> count_by(const Filter& filter, const CountBy& by, std::int64_t most) override;
  Result<std::vector<AuditRow>> audit(TaskId id) override;
  Result<AuditPage> audit_log(const AuditFilter& filter) override;

  Result<std::vector<TaskRow>> list(const Filter& filter) override;
  Result<std::optional<TaskRow>> find(TaskId id) override;
  Result<std::vector<TaskId>> children(const Task& task) override;
  Result<std::vector<AttemptRow>> histories(std::span<const TaskId> ids) override;
  Result<std::string> origin(TaskId id) override;
  Result<std::vector<KnownTask>> known(std::span<const TaskId> ids) override;
  Result<std::vector<QueueStat>> open_by_queue() override;
  Result<EndedPiece> count_ended(const EndedPlace& from, int most) override;
  Result<std::vector<NodeRow>> nodes() override;
  Result<std::vector<ShardOverdue>> overdue() override;

 protected:
  // For a database that is far away (tests/simulator): before a call takes effect, and after. An error is the
  // call's answer. Calls that write tasks and clock() have neither.
  virtual std::optional<Error> before_call() { return std::nullopt; }
  virtual std::optional<Error> after_call() { return std::nullopt; }

 private:
  // Runs `body` under the lock, with the faults that tests have set.
  template <typename F>
  auto call(F body) -> Result<decltype(body())> {
    if (auto error = before_call()) return tl::unexpected(*std::move(error));
    Result<decltype(body())> out;
    {
      const std::lock_guard lock(db_.mutex_);
      if (auto error = db_.faults_.before_call()) return tl::unexpected(*std::move(error));
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
      } else {
        out = body();
      }
      if (auto error = db_.faults_.after_call()) return tl::unexpected(*std::move(error));
    }
    if (auto error = after_call()) return tl::unexpected(*std::move(error));
    return out;
  }

  TaskRow row_of(const MemoryTask& stored) const {
    return {stored.task, db_.leases_.name(stored.task.node),
            stored.message->properties.correlation_id.value_or("")};
  }
  static bool shows(const Filter& filter, const Task& task);
  static bool has_headers(const Filter& filter, const Message& message);  // and the correlation-id
  // Inside call():
  void write_pause(const Pause& pause, AuditRow change, const std::string& reason);
  void record(SystemEvent event) { db_.records_.write(std::move(event), db_.now_()); }
  void bulk_ended(const Bulk& bulk);

  const std::shared_ptr<MemoryDb> shared_;
  MemoryDb& db_;
  MemoryTransactions transactions_;
  TaskWriter writer_;
};

}  // namespace rung
