// The store of the flow: what the bridge calls, and with it the simulator and the unit tests. mysql/
// implements it for MySQL and MariaDB (mysql_store.h, which adds what people ask for); tests/support/memory
// for tests.
//
// Thread: a Store is one connection, for one thread at a time. Every call blocks, is one transaction, and may
// be repeated after a transient error: writes are keyed (ids made by the caller) or guarded (decide()), so
// that a repeat after a lost answer changes nothing twice. Errors are thrown, as StoreError: transient = try
// again (server away, deadlock, lock wait); refused = the server answers, but the fault is the database's (a
// privilege or a table is missing, read-only): try again, and report it; permanent = about this row's data
// (too large, out of range). Opening a store, migrate() and check_schema() throw permanent if a login or a
// privilege is refused, or the schema is newer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"
#include "src/store/attachments.h"
#include "src/store/bulks.h"
#include "src/store/causes.h"
#include "src/store/gates.h"
#include "src/store/options.h"
#include "src/store/system.h"
#include "src/store/tasks.h"

namespace rung {

struct StoreError : std::exception {
  explicit StoreError(Error of) : error(std::move(of)) {}
  const char* what() const noexcept override { return error.message.c_str(); }
  Error error;
};
template <typename T>
T or_throw(Result<T> result) {
  return value_or_throw<StoreError>(std::move(result));
}
// What `call` returns, or the StoreError that it throws.
template <typename F>
auto result_of(const F& call) -> Result<decltype(call())> {
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else {
      return call();
    }
  } catch (const StoreError& e) {
    return tl::unexpected(e.error);
  }
}

class Store {
 public:
  virtual ~Store() = default;

  // The database's time; clock(): to the us, for DbClock, by a query that takes no longer than its round
  // trip.
  virtual EpochMs now() = 0;
  virtual EpochUs clock() = 0;

  // --- tasks: every change of one goes through insert() and apply().
  // One transaction, in order of ids; results in the order of `tasks`.
  virtual std::vector<Inserted> insert(std::span<const NewTask> tasks, const Fence& fence) = 0;
  // Locks the tasks in order of ids, calls `decide` for each event (in order within a task), and writes the
  // results. If every event has `expected`, it may skip reading the rows, and then writes only rows that are
  // unchanged. No such task: Decision{refused, "no such task"}. Results in the order of `events`. An applied
  // event by hand gets an audit row. Decision::child is inserted too, or the event is refused. `step`: the
  // events are the next of that bulk (bulk_next), whose progress is written with them.
  virtual std::vector<Decision> apply(std::span<const Event> events, const Fence& fence,
                                      const Decider& decide, const BulkStep* step = nullptr) = 0;
  // apply() of claims. Reads the messages of first_claimed() in the same round trip. Many claims are short:
  // their tasks' rows are written by the confirm, or by write_claims().
  virtual Claimed claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                        std::size_t most_bytes) = 0;
  // Writes the claims of those that have a short one into their rows, under whichever lease they were made.
  virtual void write_claims(std::span<const TaskId> ids) = 0;
  // The tasks of these shards with a short claim under an epoch older than the lease's. Reads all that are
  // due.
  virtual std::vector<TaskId> short_claims(std::span<const Lease> leases) = 0;
  // Those that exist, in any order. One unreadable row does not fail the others.
  virtual std::vector<StoredMessage> messages(std::span<const TaskId> ids) = 0;
  // Rows of `state` in `shards` with after < next_at <= until (no lower bound if `after` is none), earliest
  // first within each shard, at most `per_shard` of each. Those of the queues `without` are left out, but the
  // search still reads past them.
  virtual std::vector<DueEntry> due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                    EpochMs until, int per_shard,
                                    std::span<const std::string> without = {}) = 0;
  // One statement, for a caller that asks all the time: whether due() and others have anything to return.
  // `until`: of all states but scheduled.
  virtual WorkWaiting work_waiting(std::span<const int> shards, EpochMs scheduled_until, EpochMs until) = 0;
  // Rows left in `publishing` under an epoch older than the lease's. Short claims: write_claims() first.
  virtual std::vector<DueEntry> stranded(std::span<const Lease> leases, int limit) = 0;
  // The store of the tests knows few conditions of a filter (memory_store.h).
  virtual std::vector<TaskRow> list(const Filter& filter) = 0;
  virtual std::optional<TaskRow> find(TaskId id) = 0;
  // Those that exist, in any order.
  virtual std::vector<KnownTask> known(std::span<const TaskId> ids) = 0;
  // By task and attempt; tasks without attempts are left out.
  virtual std::vector<AttemptRow> histories(std::span<const TaskId> ids) = 0;
  std::vector<AttemptRow> history(TaskId id) { return histories({&id, 1}); }
  virtual std::vector<AuditRow> audit(TaskId id) = 0;  // the oldest first

  // --- nodes and their leases of shards: src/bridge/leases/shards decides about them.
  // Registers the name; its id never changes. Heartbeats of an earlier incarnation fail from now on.
  virtual int register_node(const NodeIdentity& identity, Ms ttl) = 0;
  virtual Beat heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                         const std::vector<HealthProblem>& problems, BrokerLink link = BrokerLink::up,
                         const std::string& config = {}) = 0;
  // Ends the node's heartbeat and frees all shards it owns, even those whose acquire() answer was lost. No
  // effect if another process has the name by now.
  virtual void leave(int node, std::uint64_t incarnation) = 0;
  virtual std::vector<NodeRow> live_nodes() = 0;
  virtual std::vector<ShardRow> shards() = 0;
  // Takes those of `shards` that are free or expired, and those owned by `node` itself (under an older
  // epoch). Each gets a new epoch, also higher than `above`. Returns the leases taken: none if another
  // process has the node's name by now. Skips, without waiting, any shard with an open write transaction.
  virtual std::vector<Lease> acquire(int node, std::uint64_t incarnation, std::span<const int> shards, Ms ttl,
                                     std::uint64_t above = 0) = 0;
  // Returns the leases still held, extended to the database's time + ttl.
  virtual std::vector<Lease> renew(int node, std::span<const Lease> leases, Ms ttl) = 0;
  virtual void release(int node, std::span<const Lease> leases) = 0;

  // --- bulks; apply() performs their steps.
  // Freezes the ids that match now; of a redrive, without those that another redrive has frozen and has still
  // to send. Leaves a row in the audit, if there are any. Ids of bulks are never reused.
  virtual Bulk create_bulk(const NewBulk& bulk) = 0;
  virtual std::optional<Bulk> bulk(std::int64_t id) = 0;
  // running <-> paused, either -> aborted; nullopt if there is no such bulk; unchanged if it has ended. A
  // change leaves an event (bulk_paused, bulk_resumed, bulk_aborted) and a row in the audit.
  virtual std::optional<Bulk> set_bulk(const BulkControl& control) = 0;
  // Takes the most overdue bulk that is running, whose next step is due by its rate, and that has no runner,
  // an expired one, or us. We own it until now + ttl, and after a step until a little after the next step is
  // due.
  virtual std::optional<Bulk> take_bulk(const std::string& runner, Ms ttl) = 0;
  // The next tasks after step.from, by id. None: the bulk is complete, and is marked done. Every end of a
  // bulk that has_ended() leaves an event (bulk_ended).
  virtual std::vector<TaskId> bulk_next(const BulkStep& step, int limit) = 0;
  // What became of the tasks that it has changed: of the last `limit` processed, by id, the greatest first.
  virtual std::vector<SentTask> sent_by_bulk(std::int64_t id, int limit) = 0;
  // passed, wait and stop are written, wait as a pause of that length. stop also stores an event
  // (bulk_stopped). Without effect if the step isn't ours any more.
  virtual void judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) = 0;

  // --- gates of queues
  // Pauses a queue, or changes the pause in force, which keeps its `since`. With a row in the audit and an
  // event, unless the pause in force is the same already.
  virtual Pause pause(const NewPause& request) = 0;
  // Ends the pause and the retry-after in force, each with a row in the audit and an event.
  virtual Resumed resume(const std::string& queue, const std::string& who, const std::string& reason) = 0;
  // Those in force, and for each queue without one its last, unless that ended more than kPausesKept ago.
  // `changed_since`: only those that changed then or later, by the time of the statement, not of its commit;
  // 0 = all.
  virtual std::vector<Pause> pauses(EpochMs changed_since = {}) = 0;
  virtual std::vector<GateState> gate_states(EpochMs changed_since = {}) = 0;  // as for pauses()
  // Changes the states of queues, which a new queue has by default. Returns them as they are afterwards.
  virtual std::vector<GateState> change_gates(const GateBatch& batch) = 0;
  GateState change_gate(const std::string& queue, const GateChange& change) {
    return change_gates({{queue}, change}).at(0);
  }
  // By which value of a header rate_by limits these tasks (indexed_value()); "" = it has none.
  virtual std::map<TaskId, std::string> header_values(std::span<const TaskId> ids,
                                                      const std::string& header) = 0;

  // --- whether the failures of queues reach us
  // What is known of `queues`; of all queues if it is empty.
  virtual AttachmentRecords attachments(std::span<const std::string> queues) = 0;
  // Writes what changes.
  virtual void see_attachments(std::span<const AttachmentSighting> seen) = 0;
  // What their silence means, and when their current attempts were confirmed. Tasks that are gone are left
  // out.
  virtual std::map<TaskId, Awaiting> awaiting(std::span<const TaskId> ids) = 0;
  // The queues of tasks that await an answer: the first `most`, sorted. Of names that differ only in trailing
  // blanks, one.
  virtual std::vector<std::string> awaiting_queues(std::size_t most) = 0;

  // --- causes
  // Adds at most `limit` changes to the rows of their causes, and resolves and reopens these. `more`: there
  // are more.
  virtual CausesFolded fold_causes(int limit) = 0;
  // Reads the causes that are stored into the book of this process, without those that have had no task and
  // no failure for kCauseKept.
  virtual void read_causes() = 0;

  // --- counts
  // Adds up in one transaction, with one statement a table.
  virtual void add_counts(const CountBatch& batch) = 0;

  // Deletes at most `limit` rows of each kind that nothing needs any more at `now`, and returns how many: old
  // buckets of counts; states of gates that equal the default and were not confirmed for kGatesKept; causes
  // that have had no task and no failure for kCauseForgotten.
  virtual int forget(EpochMs now, int limit) = 0;

  // --- retention: src/bridge/upkeep/retention.h decides when. Each call may be repeated, and run by two
  // processes at once.
  // Examines up to `limit` finished tasks after `from`; deletes those that finished before `before`, except
  // tasks in a running bulk and tasks locked just now. Their attempts and bodies become invisible at once,
  // and are deleted with their partition.
  virtual PurgeResult purge_finished(EpochMs before, const PurgeCursor& from, int limit) = 0;
  // By `end`, without the last one, which holds everything later than all others.
  virtual std::vector<Partition> partitions() = 0;
  // Adds those of `partitions` (by `end`, each begins where the previous ends) that are later than all
  // existing ones; also completes an earlier interrupted call. Blocks others while it runs, and for a second
  // at most if it returns `busy`.
  virtual PartitionsAdded add_partitions(std::span<const Partition> partitions) = 0;
  // Drops a partition if none of its tasks is left. Blocks others like add_partitions.
  virtual PartitionDrop drop_partition(const Partition& partition) = 0;
  // Deletes attempts and bodies whose task is gone, from <= id < to, in order of ids: `limit` tasks at most.
  virtual Swept sweep(TaskId from, TaskId to, int limit) = 0;
  // Deletes audit rows and events older than `before`, and bulks that ended before it with their items:
  // `limit` rows at most.
  virtual PurgedRecords purge_records(EpochMs before, int limit) = 0;

  // --- events and settings
  virtual void record_event(int node, const SystemEvent& event) = 0;
  // A setting shared by all instances. Returns the stored value. If there is none, returns `if_absent` and
  // stores it, unless it is "". Concurrent calls get the same answer.
  virtual std::string setting(std::string_view name, std::string_view if_absent) = 0;
  // "" removes it.
  virtual void set_setting(std::string_view name, std::string_view value) = 0;
};

// Opens a connection; called in the thread that will use it, and again after a transient error. Throws
// StoreError.
using StoreFactory = std::function<std::unique_ptr<Store>()>;

// --- which place of which broker this database serves: two rows of rung_settings. `database_id` is random,
// and the broker's mark (Broker::claim) shows it; `serves_broker` is the place (to_text()), written by the
// first instance that finds the place free. From then on only a person changes them (`rung adopt`).

struct Ownership {
  std::string database;               // its id; "" = it has none yet
  std::optional<BrokerPlace> serves;  // none = no place yet
};

// JSON, as it is stored: the same place always gives the same text.
std::string to_text(const BrokerPlace& place);

// Creates the id if there is none; remembers `if_none` if the database serves no place yet. Concurrent calls
// get the same answer.
Ownership read_ownership(Store& store, const std::optional<BrokerPlace>& if_none);
// Changes nothing.
Ownership look_at_ownership(Store& store);
// Gives the database a new id, so that no copy of it is taken for it, and this place. Returns the id.
std::string change_ownership(Store& store, const BrokerPlace& place);

// Why an instance must not serve the reported place with this database, and what to do; "" = it may, as far
// as is known. REQUIRES: report.asked_for is the database's id.
std::string conflict(const Ownership& ownership, const PlaceReport& report);
// Whether more instances serve the place than the `live` ones of this database: then those of a copy of it,
// which has the same id. "" = no. For a moment also after the end of a process that could not say goodbye.
std::string shared(const PlaceReport& report, std::size_t live);

}  // namespace rung
