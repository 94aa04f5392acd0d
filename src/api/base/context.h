// What a handler gets (its call, and what all share), the rows of the tables of routes, and the router: the
// same for a request of the network and for one of this process. Thread: any; many handlers run at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/base/query.h"
#include "src/api/base/reads.h"
#include "src/api/base/rights.h"
#include "src/bridge/vitals.h"
#include "src/core/base/time.h"
#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/rules/people.h"
#include "src/core/rules/policy.h"

namespace rung::api {

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

struct ContextParts {
  Bridging bridging = {};
  MysqlStoreFactory store = {};  // for reads: connections separate from the flow's
  AskVitals ask_vitals = {};     // empty: there is no loop
  RuleBookPtr rules = {};
  ReservedHeaders reserved_headers = {};        // that no submitted task may set
  std::vector<std::string> index_headers = {};  // by which tasks can be found
  CauseRulesPtr cause_rules = nullptr;          // nullptr: the config has no `causes`
  std::string version = {};
  int read_connections = 4;
};

// Shared by the handlers.
class Context : public ContextParts {
 public:
  // REQUIRES: `here` outlives it.
  Context(ContextParts parts, Ms call_timeout, const Clock& here)
      : ContextParts(std::move(parts)),
        clock(here),
        reads(store, read_connections, call_timeout, here),
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
Handler create_bulk, list_bulks, show_bulk, pause_bulk, resume_bulk, abort_bulk;
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
