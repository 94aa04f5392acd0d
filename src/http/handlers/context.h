// Shared by the handlers. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/api/stats/task_counter.h"
#include "src/core/message/broker_facts.h"
#include "src/core/rules/policy.h"
#include "src/http/access/sessions.h"
#include "src/http/data/live.h"
#include "src/http/data/reads.h"
#include "src/http/data/writes.h"
#include "src/http/metrics/metrics.h"
#include "src/http/request/problem.h"
#include "src/http/request/router.h"

namespace rung::http {

// Asks the loop, which also runs the callback.
using AskVitals = std::function<void(std::function<void(const Vitals&)>)>;

class Context {
 public:
  // REQUIRES: `here` outlives it.
  Context(Bridging bridging, StoreFactory factory, AskVitals ask, RuleBookPtr rules,
          ReservedHeaders reserved_headers, std::vector<std::string> indexed, std::string_view version_text,
          int read_connections, Ms call_timeout, std::size_t most_viewers, const Clock& here)
      : clock(here),
        version(version_text),
        reserved(reserved_headers),
        index_headers(std::move(indexed)),
        reads(std::move(factory), read_connections, call_timeout, here),
        writes(std::move(bridging), call_timeout),
        counter(here),
        live(reads, counter, here, most_viewers),
        metrics(version_text, rules->targets().groups.own, here),
        ask_(std::move(ask)),
        rules_(std::move(rules)) {}

  const Clock& clock;
  const std::string version;
  const ReservedHeaders reserved;                // headers that no submitted task may set
  const std::vector<std::string> index_headers;  // by which tasks can be found
  Reads reads;
  Writes writes;
  api::TaskCounter counter;
  LiveFeed live;
  Metrics metrics;
  CauseRulesPtr cause_rules;
  std::atomic<bool> counts_failed{false};  // the database did not answer the query for /metrics

  RuleBookPtr rules() const {
    const std::lock_guard lock(mutex_);
    return rules_;
  }
  void reload(RuleBookPtr rules) {
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
  }

  // None: the loop did not answer within two seconds.
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

// --- the handlers: tasks.cc, changes.cc, edits.cc, bulks.cc, causes.cc, queues.cc, simulate.cc, service.cc;
// stats.cc has activity and audit, too
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
Response show_config(Context& context, const Call& call);
Response show_now(Context& context, const Call& call);
Response show_events(Context& context, const Call& call);
Response show_health(Context& context, const Call& call);
Response show_ready(Context& context, const Call& call);
Response show_metrics(Context& context, const Call& call, int connections);
Response show_you(const Call& call);
Response show_openapi(const Call& call);

// The version that If-Match demands of the call's task; none if there is no If-Match, or "*". Errors: a text.
Result<std::optional<std::uint32_t>> version_of(Context& context, const Call& call);

Response no_such_task(const Call& call);

// The table of all routes of the API.
std::vector<Route> all_routes(Context& context, const SessionParts& session,
                              const std::function<int()>& connections);

}  // namespace rung::http
