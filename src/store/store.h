// What the bridge and the command line ask of a store. mysql/ does it with MySQL and MariaDB; memory/ for
// tests.
//
// Thread: a Store is one connection, for one thread at a time. Every call blocks, is one transaction, and may
// be repeated after a transient error: writes are keyed (ids made by the caller) or guarded (decide()), so
// that a repeat after a lost answer changes nothing twice. Errors: transient = try again (server away,
// deadlock, lock wait); refused = the database's trouble too, but it answers (a right, a table is missing,
// read-only): try again, and tell; permanent = about this row's data (too large, out of range). Opening a
// store, migrate() and check_schema() answer permanent where a login or a right is refused, or the schema is
// newer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/addresses.h"
#include "src/core/audit.h"
#include "src/core/health.h"
#include "src/core/machine.h"
#include "src/core/result.h"
#include "src/core/task.h"
#include "src/store/server_risks.h"

namespace rung {

struct StoreOptions {
  std::string url;  // mysql://user:password@host:port/schema
  // Further addresses of the same database: the same schema. Those that are read-only are passed over.
  std::vector<std::string> other_urls;
  // Shared by the connections of one process, so that all are at one address; none: each has its own.
  std::shared_ptr<Addresses> addresses;
  std::string password_file;  // its first line, instead of the URLs' passwords
  std::string tls = "off";    // off | required (no check) is not offered: off | verify
  std::string ca, cert, key;  // for tls: verify, which checks CA and host
  bool migrate = true;
  int connections = 3;
  Ms timeout{std::chrono::seconds{10}};  // connect, read, write
  // Message headers by whose value tasks can be found (rung_task_headers). Written when a task is taken in.
  std::vector<std::string> index_headers;
};

struct Lease {
  int shard = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Lease&) const = default;
};

struct ShardRow {
  int shard = 0;
  int owner = 0;  // rung_nodes.id; 0 = nobody
  std::uint64_t epoch = 0;
  std::optional<EpochMs> expires_at;
  std::optional<EpochMs> acquired_at;
};

// An instance's connection for publishing. Persisted as numbers. NOTE: only append.
enum class BrokerLink : std::uint8_t {
  lost = 0,  // for longer than a lease: it gets no shards while another instance is `up`
  up = 1,
  interrupted = 2,  // not for long: it keeps its shards, but nobody gives shards up for its sake
};

struct NodeRow {
  int id = 0;
  std::string name;
  EpochMs started_at, seen_at, expires_at;
  std::string version, address;         // address: host and pid
  std::vector<HealthProblem> problems;  // as of its last heartbeat
  BrokerLink link = BrokerLink::up;     // the same
};

// What of a shard should have gone out by now. `oldest` = the longest due of it; it may be claimed just now.
struct ShardOverdue {
  int shard = 0;
  std::int64_t tasks = 0;
  EpochMs oldest;
};

struct NodeIdentity {
  std::string name, version, address;
  std::uint64_t incarnation = 0;  // random, of this process
};

// Something that happened to the system itself, not to a task: rung_events, the view retry_events.
struct SystemEvent {
  std::int64_t id = 0;  // given by the store
  EpochMs at;           // given by the store
  std::string node;     // its name; given by the store
  std::string kind;     // a constant word: "topology_repaired", "clock_step" ...
  std::string subject;  // what it happened to: a queue, an exchange, a node; may be ""
  std::string detail;   // for people
};

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

// A header's value as rung_task_headers keeps it: text, a number, true or false; the first kIndexedBytes of
// it.
// "" = no such header, or one whose value can't be searched for (a table, an array, bytes that are not
// UTF-8).
inline constexpr std::size_t kIndexedBytes = 255;
std::string indexed_value(const Message& message, std::string_view header);

// Which rows list() shows. Empty = all; the newest first.
struct Filter {
  enum class Order : std::uint8_t {
    newest,
    oldest,
    due
  };  // due: the next due first; what isn't due comes last

  std::optional<State> state = {};
  std::vector<State> states = {};  // any of these; empty = as `state` says
  std::optional<Kind> kind = {};
  std::string queue = {}, exchange = {}, tag = {}, message_id = {}, ladder = {};
  std::string error_contains = {};
  std::optional<EpochMs> due_before = {}, due_after = {}, created_before = {}, created_after = {};
  std::optional<TaskId> below = {};  // cursor: ids smaller than this
  int limit = 50;
  std::string correlation_id = {};
  // Name and value of headers in StoreOptions::index_headers; all have to match.
  std::vector<std::pair<std::string, std::string>> headers = {};
  Order order = Order::newest;
};

// retry_current, retry_history, for people: with the node's name instead of its number.
struct TaskRow {
  Task task;
  std::string node;
  // Property `correlation_id`; "" = none; nullopt: not read, the row was made from a change's outcome.
  std::optional<std::string> correlation_id = {};
};
struct KnownTask {
  TaskRow row;
  std::string origin;  // NewTask::origin_json
};
struct AttemptRow {
  Attempt attempt;
  std::string queue, message_id, node;
};
struct QueueStat {  // retry_by_queue
  std::string queue;
  State state = State::scheduled;
  std::int64_t tasks = 0;
  std::optional<EpochMs> oldest_due_at;
  std::int64_t overdue = 0;
};

// One action on many tasks, over the ids that matched when it was made. Persisted as words. NOTE: only
// append.
enum class BulkAction : std::uint8_t { cancel = 1, fire, redrive, discard };
enum class BulkState : std::uint8_t { running = 1, paused, aborted, done };
std::string_view to_word(BulkAction);
std::string_view to_word(BulkState);
std::optional<BulkAction> bulk_action_from(std::string_view word);
std::optional<BulkState> bulk_state_from(std::string_view word);

struct NewBulk {
  BulkAction action = BulkAction::cancel;
  Filter filter;            // limit and below are not looked at
  std::string filter_text;  // the filter as it was asked for: for people
  std::string reason;       // of a cancel or a discard
  Target elsewhere;         // of a redrive
  double rate = 0;          // tasks a second; 0 = as fast as it goes
  std::string who;
  bool paused = false;  // it waits for set_bulk(): somebody is asked first
};

struct Bulk {
  std::int64_t id = 0;
  BulkAction action = BulkAction::cancel;
  BulkState state = BulkState::running;
  std::string filter_text, reason, who;
  Target elsewhere;
  double rate = 0;
  std::int64_t total = 0, done = 0;       // done: looked at, whatever came of it
  std::int64_t applied = 0, refused = 0;  // the others were as they should be already
  EpochMs created_at;
  std::optional<EpochMs> finished_at;
  std::string runner;  // who is at it; "" = nobody
  TaskId last = {};    // up to here it is done
};

// Which tasks it freezes: those of its filter, and where that names no state, those that the action is for.
Filter of_bulk(const NewBulk& bulk);
// What it does to one.
Event event_of(const Bulk& bulk, TaskId id);

// How far a bulk has come by the events of one apply(): written with them, so that none is done twice.
struct BulkStep {
  std::int64_t bulk = 0;
  // REQUIRES: `runner` has the bulk (take_bulk), and it stands at `from` (Bulk::last); else nothing is
  // written and the error is permanent.
  std::string runner;
  TaskId from = {};
};

// --- what retention is about: tasks that are over for good (succeeded, cancelled, discarded; parked ones
// wait for a person), and what is kept of them.
// How far a walk through them has come: by finished_at, then id.
struct OverPlace {
  EpochMs at;
  TaskId id = {};
  bool operator==(const OverPlace&) const = default;
};
struct LetGo {
  std::int64_t tasks = 0;  // gone now
  OverPlace last;          // looked at up to here
  bool more = false;       // there may be more after it that is old
};
// A part of the attempts and bodies: those of the tasks with from <= id < end. A day's, or several days'.
struct Part {
  std::string name;
  TaskId from, end;
  bool operator==(const Part&) const = default;
};
enum class PartEnd : std::uint8_t {
  dropped,  // or it was gone already
  kept,     // a task of it is still there
  busy,     // somebody's transaction is open on the tables: nothing was done, again later
};
enum class PartsAdded : std::uint8_t {
  added,  // or they were there already
  busy,   // as above
  full,   // what lies beyond the last part is too much to be moved: nothing was done
};
struct Swept {
  std::int64_t tasks = 0;      // whose attempts and bodies went now
  std::optional<TaskId> next;  // go on here; none: through
};
struct OldRecords {
  std::int64_t audit = 0, bulks = 0, events = 0;  // gone now
  bool more = false;
};

// decide() with the rule book and the dice bound to it; called inside the transaction, once an event.
using Decider = std::function<Decision(const Task&, const Happening&, const Circumstances&)>;

class Store {
 public:
  virtual ~Store() = default;

  // --- schema
  // Creates or upgrades; two at once are safe; refuses a schema newer than this program knows. Returns the
  // names of the migrations it applied.
  virtual Result<std::vector<std::string>> migrate() = 0;
  // Permanent error that says "rung migrate" where the schema is not exactly what this program needs.
  virtual Result<void> check_schema() = 0;
  virtual Result<EpochMs> now() = 0;
  // The same to the us, by a question that takes no longer than its way: what DbClock is set by.
  virtual Result<EpochUs> clock() = 0;

  // --- nodes and leases (src/bridge/shards decides, this writes)
  // Takes the name: the id is the same each time. A former incarnation's heartbeat fails from now on.
  virtual Result<int> register_node(const NodeIdentity& identity, Ms ttl) = 0;
  // false: another process took the name, or the database went back in time. `now` = database time of the
  // beat. `name` and `beats`: of the row as it stands now; each registration and each beat counts one. Where
  // `beats` is not higher than after our last beat, the row is an older one. No such row: "" and 0.
  struct Beat {
    bool still_ours = false;
    EpochMs now;
    std::string name = {};
    std::uint64_t beats = 0;
  };
  virtual Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                                 const std::vector<HealthProblem>& problems,
                                 BrokerLink link = BrokerLink::up) = 0;
  // Its heartbeat ends, and whatever it owns is free, also what nobody told it that it took. Nothing happens
  // where another process has the name by now.
  virtual Result<void> leave(int node, std::uint64_t incarnation) = 0;
  virtual Result<std::vector<NodeRow>> live_nodes() = 0;
  virtual Result<std::vector<ShardRow>> shards() = 0;
  // Takes those of `shards` that are free or expired, and those owned by `node` itself (under an older
  // epoch). Each gets a new epoch. Returns what was taken: nothing where another process has the node's name
  // by now, and never a shard in which somebody's write is open; such a one is passed over, not waited for.
  // New epochs are higher than `above`, too.
  virtual Result<std::vector<Lease>> acquire(int node, std::uint64_t incarnation, std::span<const int> shards,
                                             Ms ttl, std::uint64_t above = 0) = 0;
  // Returns those still held, now until now + ttl. `now` as in Beat.
  struct Renewal {
    std::vector<Lease> held;
    EpochMs now;
  };
  virtual Result<Renewal> renew(int node, std::span<const Lease> leases, Ms ttl) = 0;
  virtual Result<void> release(int node, std::span<const Lease> leases) = 0;

  // --- tasks
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

  // --- bulks
  // Freezes the ids that match now. The id of a bulk is never used again.
  virtual Result<Bulk> create_bulk(const NewBulk& bulk) = 0;
  virtual Result<std::optional<Bulk>> bulk(std::int64_t id) = 0;
  virtual Result<std::vector<Bulk>> bulks(int limit) = 0;  // the newest first
  // running <-> paused, either -> aborted; nullopt where there is no such bulk; unchanged where it has ended.
  virtual Result<std::optional<Bulk>> set_bulk(std::int64_t id, BulkState state,
                                               std::optional<double> rate) = 0;
  // Of those that are running, whose next step is due by their rate, and that have no runner, or one whose
  // time is up, or us: the one that is due longest. It is ours until now + ttl, and after a step until a
  // little after the next is due. `only`: that one and no other.
  virtual Result<std::optional<Bulk>> take_bulk(const std::string& runner, Ms ttl,
                                                std::optional<std::int64_t> only = std::nullopt) = 0;
  // The next after step.from, by id. None: it is through, and now says so.
  virtual Result<std::vector<TaskId>> bulk_next(const BulkStep& step, int limit) = 0;

  // --- retention (src/bridge/retention.h says when). Each may be done twice, and by two at once.
  // Looks at up to `limit` finished tasks after `from`; lets go of those that are over since before `before`,
  // but for what a bulk under way names and what is locked just now. Their attempts and bodies are out of
  // people's sight at once, and go with their part.
  virtual Result<LetGo> let_go(EpochMs before, const OverPlace& from, int limit) = 0;
  // But for the last one, which takes whatever is later than all others. By `end`.
  virtual Result<std::vector<Part>> parts() = 0;
  // Those of `parts` (by `end`, each begins where the one before it ends) that are later than all that are
  // there; and what an earlier call that was cut short left to do. Others wait for as long as it takes, and
  // for a second at most where it is `busy`.
  virtual Result<PartsAdded> add_parts(std::span<const Part> parts) = 0;
  // Whole, where no task of it is left. Others wait as for add_parts.
  virtual Result<PartEnd> drop_part(const Part& part) = 0;
  // Attempts and bodies whose task is gone, from <= id < to, in the order of ids: `limit` tasks at most.
  virtual Result<Swept> sweep(TaskId from, TaskId to, int limit) = 0;
  // Audit rows and events from before `before`, and bulks with their items that ended before it: `limit` rows
  // at most.
  virtual Result<OldRecords> let_go_records(EpochMs before, int limit) = 0;

  // --- the system itself
  // Of the server that answers now.
  virtual Result<ServerVariables> server_variables() = 0;
  virtual Result<void> record_event(int node, const SystemEvent& event) = 0;
  virtual Result<std::vector<SystemEvent>> events(int limit) = 0;  // the newest first
  // What all instances share. The value that stands, `if_absent` where none did: then that is written, unless
  // it is
  // "". Two at once get the same answer.
  virtual Result<std::string> setting(std::string_view name, std::string_view if_absent) = 0;
  virtual Result<void> set_setting(std::string_view name, std::string_view value) = 0;

  // --- for people
  // How many match, at most `most`: counting stops there.
  virtual Result<std::int64_t> count(const Filter& filter, std::int64_t most) = 0;
  virtual Result<std::vector<AuditRow>> audit(TaskId id) = 0;  // the oldest first
  virtual Result<std::vector<TaskRow>> list(const Filter& filter) = 0;
  virtual Result<std::optional<TaskRow>> find(TaskId id) = 0;
  // Those that exist, in any order.
  virtual Result<std::vector<KnownTask>> known(std::span<const TaskId> ids) = 0;
  virtual Result<std::vector<AttemptRow>> history(TaskId id) = 0;  // by attempt
  virtual Result<std::string> origin(TaskId id) = 0;               // NewTask::origin_json; not_found
  virtual Result<std::vector<QueueStat>> by_queue() = 0;
  // Every node that ever was, by id. expires_at is over: it died, or left where seen_at is not before it.
  virtual Result<std::vector<NodeRow>> nodes() = 0;
  // Scheduled and due, by the database's clock; a shard that has none is left out. By shard.
  virtual Result<std::vector<ShardOverdue>> overdue() = 0;
};

// Makes a connection; called in the thread that will use it, again after a transient error.
using StoreFactory = std::function<Result<std::unique_ptr<Store>>()>;

}  // namespace rung
