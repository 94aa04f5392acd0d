// The store in MySQL 8 and MariaDB 10.6+: that of the flow (store.h), and what people and the program itself
// ask of the database. Thread, errors: as store.h says; the factory may be called from several threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/task_writer.h"
#include "src/store/tasks.h"

namespace rung {
namespace mysql {

class Session;

// Global variables, names in lower case. `group_members`: the number of active members of a Group
// Replication, if known.
using ServerVariables = std::map<std::string, std::string>;

class MysqlStore final : public TaskWriter {
 public:
  explicit MysqlStore(std::unique_ptr<Session> session);
  ~MysqlStore() override;

  // --- the schema and the server
  // Creates the schema; safe to run twice at once, and again where it was interrupted; refuses a schema newer
  // than this program knows. Returns what it created: "schema", "views" (whose definer is gone) or "".
  std::string migrate();
  // Permanent error that says "rung migrate" if the schema is not exactly the one this program needs.
  void check_schema();
  // Of the server we are connected to now.
  ServerVariables server_variables();

  // --- reads
  // The number of matches; counting stops at `most`.
  std::int64_t count(const Filter& filter, std::int64_t most);
  // The same, by the values of a field.
  TaskCounts count_by(const Filter& filter, const CountBy& by, std::int64_t most);
  AuditPage audit_log(const AuditFilter& filter);  // of all tasks and queues
  // The oldest kMostChildren tasks whose parent this one is and that carry its message-id: there is an index
  // of message-ids, and none of parents. Of the tasks with that message-id, kMostLookedAt are looked at.
  static constexpr int kMostChildren = 20, kMostLookedAt = 1000;
  std::vector<TaskId> children(const Task& task);
  // Tasks that have not ended, and parked ones, by queue and state.
  std::vector<QueueStat> open_by_queue();
  // The succeeded, then the cancelled, then the discarded ones. There may be a hundred million, more than one
  // query can count: a call counts a piece of about `most`.
  EndedPiece count_ended(const EndedPlace& from, int most);
  // All nodes ever registered, by id. If expires_at has passed, the node died, or it left if seen_at is not
  // before expires_at.
  std::vector<NodeRow> nodes();
  // Scheduled tasks that are due, by the database's clock. By shard, without shards that have none.
  std::vector<ShardOverdue> overdue();
  // The newest first. `below`: only those with a smaller id.
  std::vector<Bulk> bulks(int limit, std::optional<std::int64_t> below = std::nullopt);
  // By queue: tasks whose silence is held open (is_silence_held()).
  std::map<std::string, std::int64_t> held_silences();
  LiveAnswer live(const LiveQuestion& question);
  // By queue; those with deliveries in the last day.
  std::vector<PromiseRow> promises();
  // By time, without steps in which nothing happened.
  std::vector<ActivityPoint> activity(const ActivityRange& range);

  // --- causes
  // Those that have regressed, then those with the most tasks under way and parked.
  std::vector<CauseRow> causes(const CauseFilter& filter);
  // The changed row; nullopt: no such cause. Leaves an event that names `who`.
  std::optional<CauseRow> triage(const std::string& cause, const CauseTriage& triage, const std::string& who);
  CauseTotals cause_totals();

  // --- of Store
  EpochMs now() override;
  EpochUs clock() override;

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
  std::vector<Partition> partitions() override;
  PartitionsAdded add_partitions(std::span<const Partition> partitions) override;
  PartitionDrop drop_partition(const Partition& partition) override;
  Swept sweep(TaskId from, TaskId to, int limit) override;
  PurgedRecords purge_records(EpochMs before, int limit) override;

  void record_event(int node, const SystemEvent& event) override;
  std::string setting(std::string_view name, std::string_view if_absent) override;
  void set_setting(std::string_view name, std::string_view value) override;

  std::vector<AuditRow> audit(TaskId id) override;

  std::vector<TaskRow> list(const Filter& filter) override;
  std::optional<TaskRow> find(TaskId id) override;
  std::vector<AttemptRow> histories(std::span<const TaskId> ids) override;
  std::vector<KnownTask> known(std::span<const TaskId> ids) override;

 private:
  // Permanent error if the filter names a header that is not indexed, or if its queue is a pattern.
  void check(const Filter& filter);
  void check_queue(const std::string& queue);
  void record_change(const AuditRow& change, const SystemEvent& event);  // inside a transaction

  // --- Tables: one statement writes all rows with the same change, one the rest. Writes are queued
  // (Session::later): an error is thrown where they are sent.
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

  std::size_t largest_row() const override;
  std::vector<SameId> find_ids(std::span<const NewRow> rows) override;
  std::vector<SameKey> find_keys(std::span<const NewRow> rows) override;
  std::int64_t free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) override;
  void insert_rows(std::span<const NewRow* const> rows) override;
  void read_messages(std::span<const TaskId> ids, std::vector<StoredMessage>& into) override;
  double random() override;

  const std::unique_ptr<Session> session_;
};

}  // namespace mysql
using mysql::MysqlStore;
using mysql::ServerVariables;

// As StoreFactory.
using MysqlStoreFactory = std::function<std::unique_ptr<MysqlStore>()>;

// options.addresses, else those of its URLs, to be shared by several stores. REQUIRES: `clock` outlives them.
std::shared_ptr<Addresses> mysql_addresses(const StoreOptions& options, const Clock& clock);

// Connects. Creates the database if it is missing, options.migrate is set and the user has the privilege;
// only migrate() creates the tables. The next call reopens a broken connection, so a Store can be kept after
// a transient error.
//
// `clock` measures its waits, unless options.addresses are given, which have their own. REQUIRES: it outlives
// the store.
// `silence`: the server ends our session after this idle time (whole seconds, at least one), which frees its
// locks. Otherwise a process paused within a transaction would keep its leases' rows locked, and no instance
// could take them over. 0 = the server's own limit, often hours.
std::unique_ptr<MysqlStore> open_mysql_store(const StoreOptions& options, const Clock& clock,
                                             Ms silence = Ms{0});

// --- for `rung doctor`: facts about a database and about our user's privileges. Read-only. Thread: any;
// blocks, bounded by options.timeout; server_risks() is a pure function.

struct DatabaseFacts {
  ServerVariables variables;
  std::vector<std::string> privileges;  // of our user, on the whole schema, without those of roles
  bool has_role = false;
  bool has_schema = false;
  int version = 0;         // of Rung's tables; 0 = none
  int newest_version = 0;  // known to this program
  Ms clock_offset{0};      // how far the database's clock is ahead of this machine's
  Ms round_trip{0};        // of the query for it: the offset may be wrong by half of that
};
// Errors: permanent = login refused; transient = not reachable.
DatabaseFacts diagnose_mysql(const StoreOptions& options, const Clock& clock);

// An address of the database.
struct DatabaseAddress {
  std::string shown;          // "host:port"
  StoreOptions options;       // for this address alone; they refer to the clock
  std::optional<Error> away;  // why it does not serve; none: it does
  bool read_only = false;
};
// One for each address, including hosts that do not resolve. Each has `timeout` to connect.
std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout);

// A risk in the settings of a database server: for `rung doctor`, and for the log at start.
struct ServerRisk {
  std::string name;    // "database.wsrep": its name in `rung doctor`
  std::string what;    // a sentence
  std::string fix;     // the command, or the change, that fixes it
  bool serves = true;  // false: Rung cannot work with it
};
std::vector<ServerRisk> server_risks(const ServerVariables& variables);

}  // namespace rung
