// What a handler gets: its call, the rights of who asks, and what all share (the way to the database and to
// the bridge, counts that take long); the rows of the tables of routes, and the router: the same for a
// request of the network and for one of this process. Thread: any; many handlers run at a time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/bridge/changes/inserts.h"
#include "src/bridge/vitals.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/rules/people.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// What can be done over HTTP, and the least role that it takes: the only table of rights. Every route names
// its action; docs/http.md and GET /v1/you show the table.
enum class Action : std::uint8_t {
  probe,  // needs no token
  read,
  submit,
  cancel,
  discard,
  reschedule,
  fire,
  finish,
  redrive,
  bulk,
  pause,
  resume,
  triage,
  body,
  edit,
  adopt
};

struct Right {
  Action action;
  std::string_view word;  // for people and programs. Append only
  Role least;             // not for `probe`; a bulk also takes that of its action
  bool by_queue;          // a token with `queues` may do it to those only
};

inline constexpr std::array<Right, 16> kRights{{{Action::probe, "probe", Role::reads, false},
                                                {Action::read, "read", Role::reads, false},
                                                {Action::submit, "submit", Role::acts, true},
                                                {Action::cancel, "cancel", Role::acts, true},
                                                {Action::discard, "discard", Role::acts, true},
                                                {Action::reschedule, "reschedule", Role::acts, true},
                                                {Action::fire, "fire", Role::acts, true},
                                                {Action::finish, "finish", Role::acts, true},
                                                {Action::redrive, "redrive", Role::redrives, true},
                                                {Action::bulk, "bulk", Role::redrives, true},
                                                {Action::pause, "pause", Role::acts, true},
                                                {Action::resume, "resume", Role::acts, true},
                                                {Action::triage, "triage", Role::acts, true},
                                                {Action::body, "body", Role::edits, true},
                                                {Action::edit, "edit", Role::edits, true},
                                                {Action::adopt, "adopt", Role::administers, false}}};

constexpr const Right& right_of(Action action) { return *std::ranges::find(kRights, action, &Right::action); }

inline bool may(const Person& person, Action action) { return person.role >= right_of(action).least; }

// In the audit, the name of requests with the token of http.read_token_file. No entry of http.tokens_file can
// have it.
inline constexpr std::string_view kTokenRead = "token read";

// What /v1/you and /v1/session say of a person: also what the token may do, and why it may not do the rest,
// so that a console offers only that. `queue`: to this queue; "" = where no queue is named.
Json person_json(const Person& person, const std::optional<std::string>& queue = {});

// A 403: the queue is outside of the person's. "" = an exchange, or no queue at all.
Problem outside_queues(const Person& person, std::string_view queue);
// Throw a 403: if the action takes a higher role; if the queue is outside, or that of the target.
void refuse_role(const Person& person, Action action);
void refuse_queue(const Person& person, std::string_view queue);
void refuse_target(const Person& person, const Target& target);

// A few connections. A call ends within its call_timeout (plus a second): a quarter of it to wait for a free
// connection, the rest for the database. So the connections' own timeout must be query_timeout().
class Reads {
 public:
  // REQUIRES: `clock` outlives it.
  Reads(MysqlStoreFactory factory, int most, Ms call_timeout, const Clock& clock)
      : factory_(std::move(factory)), most_(most), call_timeout_(call_timeout), clock_(clock) {}

  static Ms query_timeout(Ms call_timeout) { return call_timeout * 3 / 4; }

  // `work(MysqlStore&)`; a StoreError that it throws is a Problem from here on. A connection that broke while
  // idle is replaced, once, and the work is repeated.
  template <typename Work>
  auto read(const Work& work) {
    const BootMs began = clock_.boot();
    bool was_idle = false;
    try {
      return attempt(work, was_idle);
    } catch (const Problem& e) {
      // A broken connection fails at once; a hanging one would hang again.
      if (!was_idle || !is_transient(e) || clock_.boot() - began >= kAtOnce) throw;
    }
    return attempt(work, was_idle);
  }
  // Never repeated: for work that would otherwise be done twice. An idle connection is tested first.
  template <typename Work>
  auto read_once(const Work& work) {
    read([](MysqlStore& store) { return store.now(); });
    bool was_idle = false;
    return attempt(work, was_idle);
  }
  // As read(); errors of the store are not thrown.
  template <typename Work>
  auto result_of(const Work& work) -> Result<decltype(work(std::declval<MysqlStore&>()))> {
    try {
      return read(work);
    } catch (const Problem& e) {
      if (!e.error) throw;
      return tl::unexpected(*e.error);
    }
  }

 private:
  static constexpr Ms kAtOnce{1000};
  static bool is_transient(const Problem& e) { return e.error && e.error->is_transient(); }

  template <typename Work>
  auto attempt(const Work& work, bool& was_idle) {
    std::unique_ptr<MysqlStore> store = take();
    was_idle = store != nullptr;
    try {
      if (!was_idle) store = open();
      auto result = work(*store);
      give_back(std::move(store));
      return result;
    } catch (const StoreError& e) {
      if (e.error.is_transient()) {
        store.reset();
        forget_idle();  // its fault usually broke them all
      }
      give_back(std::move(store));
      throw Problem(e.error);
    } catch (...) {  // its place must not be lost
      give_back(std::move(store));
      throw;
    }
  }

  // nullptr: the caller may open one.
  std::unique_ptr<MysqlStore> take();
  std::unique_ptr<MysqlStore> open() const;
  void give_back(std::unique_ptr<MysqlStore> store);
  void forget_idle();

  const MysqlStoreFactory factory_;
  const int most_;
  const Ms call_timeout_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable free_;
  int out_ = 0;                                    // guarded by mutex_
  std::vector<std::unique_ptr<MysqlStore>> idle_;  // guarded by mutex_
};

// Bridge::submit and Bridge::change.
struct Bridging {
  std::function<void(std::vector<Submission>, bridge::Inserts::SubmitDone)> submit;
  std::function<void(std::vector<Event>, bridge::Inserts::ChangeDone)> change;
};

// `ask(done)` starts asynchronous work, which calls `done` with its answer at most once, on any thread.
// Returns none if that takes longer than `most`; the answer may still come later.
template <typename T, typename Ask>
std::optional<T> answer_within(Ms most, const Ask& ask) {
  const auto promise = std::make_shared<std::promise<T>>();
  auto answer = promise->get_future();
  ask([promise](T value) { promise->set_value(std::move(value)); });
  if (answer.wait_for(most) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

// Hands new tasks and changes to the bridge and waits for the answer. That uses the bridge's leases, fences
// and heap, and concurrent calls share a transaction.
class Writes {
 public:
  // `reply_timeout`: how long to wait for an answer.
  Writes(Bridging bridging, Ms reply_timeout)
      : bridging_(std::move(bridging)), reply_timeout_(reply_timeout) {}

  // Transient error: either the outcome is unknown (no answer in time), or nothing happened (too much is
  // waiting already, the instance is stopping); the text says which.
  Result<std::vector<bridge::Submitted>> submit(std::vector<Submission> batch);
  // `more`: bytes of the messages in the events.
  Result<std::vector<Decision>> change(std::vector<Event> events, std::int64_t more = 0);

 private:
  const Bridging bridging_;
  const Ms reply_timeout_;
  // Bytes of unanswered calls, including those whose caller no longer waits. Shared with the callbacks.
  std::shared_ptr<std::atomic<std::int64_t>> waiting_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

struct TaskCount {
  std::vector<QueueStat> queues;  // by queue and state, as in retry_by_queue
  // When the count of the ended ones began, by the callers' `now`. None: not all are counted yet, so there
  // are more.
  std::optional<EpochMs> ended_at;
};

// Counts tasks by queue and state. Open tasks are counted each time. Ended ones are most rows, and a hundred
// million of them take minutes: they are counted in pieces, and callers get the last complete count. Thread:
// any. One caller counts ended tasks at a time; another one waits for it as long as it would itself count.
class TaskCounter {
 public:
  static constexpr int kPiece = 50'000;              // tasks; 30 to 100 ms of the database
  static constexpr Ms kAll{std::chrono::hours{24}};  // enough to count all

  // `piece`: for tests. REQUIRES: `clock` outlives it.
  explicit TaskCounter(const Clock& clock, int piece = kPiece) : clock_(clock), piece_(piece) {}

  // Counts ended tasks until all are counted, or for `most` and a piece more: with few of them the result is
  // of now, with many several calls make the next complete count. Throws the store's errors.
  TaskCount count(MysqlStore& store, EpochMs now, Ms most);

 private:
  using Ended = std::map<std::pair<std::string, State>, std::int64_t>;
  void count_ended(MysqlStore& store, EpochMs now, BootMs until);
  bool count_piece(MysqlStore& store);  // whether it was the last one

  const Clock& clock_;
  const int piece_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool counting_ = false;            // guarded by mutex_
  Ended so_far_;                     // guarded by mutex_
  Ended whole_;                      // the last complete count; guarded by mutex_
  std::optional<EpochMs> ended_at_;  // when it began; guarded by mutex_
  EndedPlace place_;                 // of the one who counts
  std::optional<EpochMs> begun_at_;  // of the one who counts; none: a count begins
};

// An answer that many ask for, read on a thread of its own: anew if it is older than `kept`, and than `share`
// times what reading it took. Those who ask meanwhile wait for it, as long as they like.
class BriefCache {
 public:
  // REQUIRES: `clock` outlives it.
  BriefCache(const Clock& clock, Ms kept, int share) : clock_(clock), kept_(kept), share_(share) {}
  ~BriefCache() {
    if (thread_.joinable()) thread_.join();
  }
  BriefCache(const BriefCache&) = delete;
  BriefCache& operator=(const BriefCache&) = delete;

  // The last answer; none: there was none within `most`. An error is the answer until the next one asks.
  // REQUIRES: what `read` uses outlives the cache.
  std::optional<Result<std::string>> get(std::function<Result<std::string>()> read, Ms most);

 private:
  const Clock& clock_;
  const Ms kept_;
  const int share_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  bool reads_ = false;
  std::optional<Result<std::string>> last_;
  BootMs until_{0};
  std::thread thread_;
};

class Context;

// Of which queue a token with `queues` must have the right. Each route names it; the router checks it before
// the handler runs, except for two.
enum class Scope : std::uint8_t {
  none,     // the action concerns no queue, or tells what every token may read
  queue,    // {queue} of the path
  task,     // the queue of the task {id}
  changed,  // the same, checked by decide() under the row's lock: Call::by_hand()
  cause,    // the queue of the {cause}
  bulk,     // the queue of the bulk {id}, and its target
  body      // the queues that the body names: the handler checks each
};

struct Call {
  const Request& request;
  std::string id;      // the text in place of {id}, {cause} or {queue}, decoded; "" if the pattern has none
  std::string who;     // for the audit
  Person person = {};  // whose role allows the action
  // The route's.
  Action action = Action::probe;
  Query query = {};
  const Json* json = nullptr;  // the body, as the route takes it
  // Asks for memory, before the handler reads what takes so many bytes; false: there is none now.
  std::function<bool(std::int64_t bytes)> reserve = [](std::int64_t) { return true; };

  ByHand by_hand(std::optional<std::uint32_t> version, std::string reason) const {
    return {who, version, std::move(reason), 0, person.queues};
  }
};

// What the body of a request must be.
enum class Takes : std::uint8_t { nothing, object, maybe, json };  // maybe: an object, or empty

using Handler = Response(Context&, const Call&);

struct Route {
  std::string_view method, pattern;  // "POST", "/v1/tasks/{id}/cancel"; "/console/*": all below it
  std::string_view id;               // of the operation in the OpenAPI document; "" = it is not there
  Action action;                     // says which role is needed
  Scope scope;
  Handler* handle;
  std::span<const Param> params = {};  // of its query, and headers
  Takes takes = Takes::nothing;
  bool for_probes = false;  // also answered on a spare connection
};

// What a token with `queues` may do to those only names them; the handler itself may look for them in two
// bodies alone.
constexpr bool name_their_queues(std::span<const Route> routes) {
  return std::ranges::all_of(routes,
                             [](const Route& route) {
                               return right_of(route.action).by_queue == (route.scope != Scope::none);
                             }) &&
         std::ranges::count(routes, Scope::body, &Route::scope) <= 2;
}

// Finds the route of a request, and calls its handler. Immutable.
class Router {
 public:
  // REQUIRES: `context` outlives it.
  Router(Context& context, std::vector<Route> routes) : context_(context), routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // nullptr: none
    std::string id;
    std::string allow;  // the path's methods, if it lacks this one
  };
  Match match(const Request& request) const;
  // Also of what the handler throws. REQUIRES: the person's role allows the route's action.
  Response answer(const Route& route, Call& call) const;

 private:
  Context& context_;
  const std::vector<Route> routes_;
};

// There is no route for a request.
Problem no_such_route(const Router::Match& match);

using Vitals = bridge::Vitals;  // the current state of this instance
// Asks the loop, which also runs the callback.
using AskVitals = std::function<void(std::function<void(const Vitals&)>)>;

inline constexpr std::int64_t kMostCounted = 1'000'000;  // tasks, for one answer
inline constexpr int kReadConnections = 4;

struct ContextParts {
  Bridging bridging = {};
  MysqlStoreFactory store = {};  // for reads: connections separate from the flow's
  AskVitals ask_vitals = {};     // empty: there is no loop
  RuleBookPtr rules = {};
  ReservedHeaders reserved_headers = {};        // that no submitted task may set
  std::vector<std::string> index_headers = {};  // by which tasks can be found
  CauseRulesPtr cause_rules = nullptr;          // nullptr: the config has no `causes`
  std::string version = {};
};

// Shared by the handlers.
class Context : public ContextParts {
 public:
  // REQUIRES: `here` outlives it.
  Context(ContextParts parts, Ms call_timeout, const Clock& here)
      : ContextParts(std::move(parts)),
        clock(here),
        reads(store, kReadConnections, call_timeout, here),
        writes(bridging, call_timeout),
        counter(here) {}

  const Clock& clock;
  Reads reads;
  Writes writes;
  TaskCounter counter;
  BriefCache overview{clock, Ms{1000}, 10};  // uses those above
  std::int64_t most_counted = kMostCounted;
  Ms counting_stats{1000};  // how long ended tasks are counted for GET /v1/stats

  RuleBookPtr rules() const {
    const std::lock_guard lock(mutex_);
    return ContextParts::rules;
  }
  void reload(RuleBookPtr book) {
    const std::lock_guard lock(mutex_);
    ContextParts::rules = std::move(book);
  }

  // As reads.read() and reads.read_once(): if the store rejects a permanent mistake of the filter or of what
  // to count by (the header is not indexed, which only the store knows, or the queue is a pattern), it is the
  // caller's.
  template <typename Work>
  auto read_filtered(const Filter& filter, const Work& work, bool counts_by = false, bool once = false) {
    try {
      return once ? reads.read_once(work) : reads.read(work);
    } catch (const Problem& e) {
      const bool can_be_asked = !filter.headers.empty() || !filter.queue.empty() || counts_by;
      if (can_be_asked && e.error && e.error->kind == Error::Kind::permanent) throw Problem(400, e.detail);
      throw;
    }
  }

  // None: there is no loop, or it did not answer within two seconds.
  std::optional<Vitals> vitals() const;
  // The row, with the name of its node.
  TaskRow named(const Task& task);

  // What became of changes of single tasks since the start, for /metrics: {"cancel", "applied"}, {"submit",
  // "created"}.
  using Counts = std::map<std::pair<std::string, std::string>, std::int64_t>;
  void count(std::string_view what, std::string_view result, std::int64_t tasks = 1) {
    const std::lock_guard lock(mutex_);
    counts_[{std::string(what), std::string(result)}] += tasks;
  }
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;          // guards ContextParts::rules, too
  std::map<int, std::string> nodes_;  // guarded by mutex_
  Counts counts_;                     // guarded by mutex_
};

// --- the handlers; those that only the network asks for are in src/http
Handler submit_tasks, list_tasks, show_task, show_origin, show_history, show_audit;
Handler change_task;  // what the action says
Handler edit_task, show_message, show_body;
Handler create_bulk, list_bulks, show_bulk;
Handler steer_bulk;  // to what its path says
Handler list_queues, show_queue, pause_queue, resume_queue;
Handler list_causes, show_cause, change_cause;
Handler list_audit, show_activity, simulate_failure;
Handler list_nodes, show_stats, show_overview, show_config, show_now, show_health, show_ready, show_you;

// What a call concerns, for its scope.
std::string queue_of_task(Context& context, const Call& call);
std::string queue_of_cause(Context& context, const Call& call);
// Throws a 403 if the bulk may concern other queues than the person's.
void refuse_bulk(Context& context, const Call& call);

// The version that If-Match demands of the call's task; none if there is no If-Match, or "*". Errors: a text.
Result<std::optional<std::uint32_t>> version_of(Context& context, const Call& call);

// Throws not_found, here and below, if there is no such task.
TaskId task_id_of(const Call& call);
TaskRow find_task(Context& context, const Call& call);
[[noreturn]] void no_such_task(const Call& call);

}  // namespace rung::api
