// Shared by the handlers. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/api/stats/task_counter.h"
#include "src/api/tasks/views.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"
#include "src/http/access/access.h"
#include "src/http/access/sign_ins.h"
#include "src/http/data/brief_cache.h"
#include "src/http/data/live.h"
#include "src/http/data/reads.h"
#include "src/http/data/writes.h"
#include "src/http/handlers/router.h"
#include "src/http/metrics/metrics.h"
#include "src/http/request/problem.h"
#include "src/oidc/code_flow.h"

namespace rung::http {

// Asks the loop, which also runs the callback.
using AskVitals = std::function<void(std::function<void(const Vitals&)>)>;

struct ConsoleOptions {
  bool enabled = false;  // GET / has the console
  bool tls = false;      // the cookie is for HTTPS alone
  Pairs peers = {};      // name and URL of the APIs of other groups
  std::string url = {};  // where browsers reach this API; "" = by the Host of their request
};

// What requests of the network need besides, for /v1/session and /metrics.
struct Network {
  Access& access;
  SignIns& sign_ins;
  const ConsoleOptions& console;
  oidc::CodeFlow* login = nullptr;        // at the identity provider; nullptr = none
  std::function<int()> connections = {};  // number of open ones
};

struct ContextParts {
  Bridging bridging = {};
  MysqlStoreFactory store = {};  // for reads: connections separate from the flow's
  AskVitals ask_vitals = {};     // empty: there is no loop
  RuleBookPtr rules = {};
  ReservedHeaders reserved_headers = {};  // the broker's
  std::vector<std::string> index_headers = {};
  CauseRulesPtr cause_rules = nullptr;  // nullptr: the config has no `causes`
  std::string version = {};
  int read_connections = 4;
};

class Context {
 public:
  // `most_viewers`: of live events. REQUIRES: `here` outlives it.
  Context(ContextParts parts, Ms call_timeout, std::size_t most_viewers, const Clock& here)
      : clock(here),
        version(std::move(parts.version)),
        reserved(parts.reserved_headers),
        index_headers(std::move(parts.index_headers)),
        cause_rules(std::move(parts.cause_rules)),
        reads(std::move(parts.store), parts.read_connections, call_timeout, here),
        writes(std::move(parts.bridging), call_timeout),
        counter(here),
        overview(here),
        live(reads, here, most_viewers),
        metrics(version, parts.rules->targets().groups.own, here),
        ask_(std::move(parts.ask_vitals)),
        rules_(std::move(parts.rules)) {}

  const Clock& clock;
  const std::string version;
  const ReservedHeaders reserved;                // headers that no submitted task may set
  const std::vector<std::string> index_headers;  // by which tasks can be found
  const CauseRulesPtr cause_rules;
  const Network* network = nullptr;  // nullptr: no request comes from the network
  Reads reads;
  Writes writes;
  api::TaskCounter counter;
  BriefCache overview;
  LiveFeed live;
  Metrics metrics;
  std::int64_t most_counted = api::kMostCounted;  // tasks, for one answer
  Ms counting_stats{1000};                        // how long ended tasks are counted for GET /v1/stats
  std::atomic<bool> counts_failed{false};         // the database did not answer the query for /metrics

  RuleBookPtr rules() const {
    const std::lock_guard lock(mutex_);
    return rules_;
  }
  void reload(RuleBookPtr rules) {
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
  }

  // None: there is no loop, or it did not answer within two seconds.
  std::optional<Vitals> vitals() const;
  // The row, with the name of its node.
  TaskRow named(const Task& task);
  // The task as a change has left it, with the gate that holds it back.
  Json changed(const Task& task);

 private:
  const AskVitals ask_;
  mutable std::mutex mutex_;
  RuleBookPtr rules_;                 // guarded by mutex_
  std::map<int, std::string> nodes_;  // guarded by mutex_

 public:
  BackgroundTask counting;  // last: it ends before the members that it uses
};

// --- the handlers: tasks.cc, changes.cc, edits.cc, bulks.cc, causes.cc, queues.cc, simulate.cc, service.cc,
// sessions.cc; stats.cc has activity and audit, too
Response submit_tasks(Context& context, const Call& call);
Response list_tasks(Context& context, const Call& call);
Response show_task(Context& context, const Call& call);
Response show_origin(Context& context, const Call& call);
Response show_history(Context& context, const Call& call);
Response show_audit(Context& context, const Call& call);

Response cancel_task(Context& context, const Call& call);
Response discard_task(Context& context, const Call& call);
Response reschedule_task(Context& context, const Call& call);
Response fire_task(Context& context, const Call& call);
Response finish_task(Context& context, const Call& call);
Response redrive_task(Context& context, const Call& call);

Response edit_task(Context& context, const Call& call);
Response show_message(Context& context, const Call& call);
Response show_body(Context& context, const Call& call);

Response create_bulk(Context& context, const Call& call);
Response list_bulks(Context& context, const Call& call);
Response show_bulk(Context& context, const Call& call);
Response pause_bulk(Context& context, const Call& call);
Response resume_bulk(Context& context, const Call& call);
Response abort_bulk(Context& context, const Call& call);

Response list_queues(Context& context, const Call& call);
Response show_queue(Context& context, const Call& call);
Response pause_queue(Context& context, const Call& call);
Response resume_queue(Context& context, const Call& call);

Response list_causes(Context& context, const Call& call);
Response show_cause(Context& context, const Call& call);
Response change_cause(Context& context, const Call& call);

Response show_activity(Context& context, const Call& call);
Response list_audit(Context& context, const Call& call);
Response simulate_failure(Context& context, const Call& call);

Response list_nodes(Context& context, const Call& call);
Response show_stats(Context& context, const Call& call);
Response show_overview(Context& context, const Call& call);
Response show_config(Context& context, const Call& call);
Response show_now(Context& context, const Call& call);
Response show_events(Context& context, const Call& call);
Response show_health(Context& context, const Call& call);
Response show_ready(Context& context, const Call& call);
Response show_metrics(Context& context, const Call& call);
Response show_you(Context& context, const Call& call);
Response show_openapi(Context& context, const Call& call);
const std::string& openapi_document();

// REQUIRES, for these and the routes below: context.network.
Response show_session(Context& context, const Call& call);
Response sign_in(Context& context, const Call& call);
Response sign_out(Context& context, const Call& call);
// Pages for browsers alone, which the API's document does not have: to the identity provider, and back.
std::vector<Route> login_routes();

// What a call concerns, for its scope. Errors: not_found, or the store's.
Result<std::string> queue_of_task(Context& context, const Call& call);
Result<std::string> queue_of_cause(Context& context, const Call& call);
// The response, if the bulk may concern other queues than the person's.
std::optional<Response> refuse_bulk(Context& context, const Call& call);

// The version that If-Match demands of the call's task; none if there is no If-Match, or "*". Errors: a text.
Result<std::optional<std::uint32_t>> version_of(Context& context, const Call& call);

std::string no_such_task_text(const Call& call);
Response no_such_task(const Call& call);

// What to count by, in a query or a dry run.
inline constexpr std::size_t kCountByBytes = 300;
inline constexpr const char* kCountByWords =
    "queue, error_type, tag, level, cause or header.NAME (a header in index_headers)";
// The response if the store rejected a filter or what to count by, or could not be queried.
Response filter_problem(const Filter& filter, const Error& error, std::string_view instance,
                        bool counted_by = false);

}  // namespace rung::http
