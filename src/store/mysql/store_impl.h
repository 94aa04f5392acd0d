// MysqlStore. Its methods are in the other files here, each named for its role, and in reads.cc (QueryStore).
// writer_ writes tasks, by tables.h.
// Thread: as Store says, one at a time.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/store/mysql/mysql_store.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/session.h"
#include "src/store/mysql/tables.h"
#include "src/store/task_writer.h"

namespace rung::mysql {

// Inside Session::run(): a row of `list`.
TaskRow task_row_at(const ::sql::ResultSet& row);
// Inside Session::run().
ServerVariables read_variables(Session& session);

// The filter as SQL conditions, for a statement in which rung_tasks is t. Begins with a blank, or is empty.
std::string conditions(const Filter& filter);

// Inside run() or transaction(). `event.node` is ignored; `node`: of the instance, 0 = none.
void write_event(Session& session, const SystemEvent& event, int node = 0);

// Inside a transaction. Whether this batch is the maker's latest of its kind: its answer was lost, and it is
// repeated. If not, it is the latest from now on. kind: "gates", "counts".
bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id);
void forget_batches(Session& session, std::string_view kind, EpochMs before);

// Inside run(). 0: there is no schema, or it was not finished.
int schema_version(Session& session);

// Inside a transaction: writes the changes. `node`: of the instance, for the events of new causes.
void write_causes(Session& session, const CauseChanges& changes, int node, EpochMs now);

class MysqlStore final : public Store {
 public:
  explicit MysqlStore(std::unique_ptr<Session> session)
      : session_(std::move(session)),
        causes_(session_->options().causes ? session_->options().causes
                                           : std::make_shared<CauseBook>(session_->options().cause_rules)) {}

  Result<std::string> migrate() override;
  Result<void> check_schema() override;
  Result<EpochMs> now() override;
  Result<EpochUs> clock() override;

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
  Result<std::vector<Partition>> partitions() override;
  Result<PartitionsAdded> add_partitions(std::span<const Partition> partitions) override;
  Result<PartitionDrop> drop_partition(const Partition& partition) override;
  Result<Swept> sweep(TaskId from, TaskId to, int limit) override;
  Result<PurgedRecords> purge_records(EpochMs before, int limit) override;

  Result<ServerVariables> server_variables() override;
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

 private:
  // Permanent error if the filter names a header that is not indexed, or if its queue is a pattern.
  Result<void> check(const Filter& filter);
  Result<void> check_queue(const std::string& queue);
  Result<std::int64_t> count_checked(const Filter& filter, std::int64_t most);
  // Runs `body` on a connection of its own, which waits a second for a table. False: the table is in use.
  Result<bool> change_tables(const std::function<void(Session&)>& body);
  // Inside a transaction: stores the ids that match, at most `most`; returns how many.
  // `also`: a further condition.
  std::int64_t freeze(const Literal& bulk, const Filter& filter, const std::string& also, std::int64_t most);
  std::vector<Bulk> read_bulks(const std::string& sql);  // inside run()
  Result<std::vector<NodeRow>> read_nodes(std::string_view statement);
  void record_change(const AuditRow& change, const SystemEvent& event);  // inside a transaction
  Result<std::vector<DueEntry>> due_entries(const std::string& sql);

  const std::unique_ptr<Session> session_;
  const std::shared_ptr<CauseBook> causes_;
  MysqlTables tables_{*session_};
  TaskWriter writer_{tables_, *causes_};
};

}  // namespace rung::mysql
