// The table of routes, with the parameters of their queries; the API inside a command.
#include "src/api/api.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/api/tasks/filter.h"
#include "src/api/tasks/views.h"

namespace rung::api {
namespace {

using Is = Param::Is;

constexpr std::array kPage{kLimit, kIdCursor};
constexpr std::array kTextPage{kLimit, kCursor};
constexpr std::array kIfMatch{Param{
    "If-Match", Is::header, "The ETag that you saw last, or a list of them. A weak one matches nothing."}};
constexpr std::array kList{
    Param{"sort", Is::word,
          "newest (as without it) or oldest: by the time received; due: the next due first, tasks without a "
          "due "
          "time last",
          kWords<Filter::Order>},
    kLimit, kCursor, Param{"count", Is::flag, "the number of tasks instead of the tasks"},
    Param{
        "by", Is::any,
        "with count: by queue, error_type, tag, level, cause or header.NAME (a header in `index_headers` of "
        "the config)"}};
// The conditions of a filter, and those.
constexpr auto kTasks = [] {
  std::array<Param, kConditionParams.size() + kList.size()> all;
  std::ranges::copy(kList, std::ranges::copy(kConditionParams, all.begin()).out);
  return all;
}();
constexpr std::array kCauses{
    Param{"queue", Is::text, "causes of this queue"},
    Param{"state", Is::words, "causes in this state, or in several separated by commas", kWords<CauseState>},
    Param{"since", Is::time, "only causes that have failed since this time"},
    Param{"with_tasks", Is::flag, "only causes that have tasks under way or parked"},
    kLimit,
    kIdCursor};
constexpr std::array kYou{
    Param{"queue", Is::any,
          "What it may do to this queue; empty: to what names no queue. Without it: what its role allows."}};
constexpr std::array kActivity{
    Param{"queue", Is::text,
          "only this queue; without it all queues together. Also a pattern of the config, or (other): the "
          "queues that the config does not know"},
    Param{"from", Is::time, "an hour before `to`, if it is not given"},
    Param{"to", Is::time, "now, if it is not given"}};
constexpr std::array kAudit{
    Param{"queue", Is::text,
          "changes of the tasks that are in this queue, its pauses, and bulks whose filter names it or no "
          "queue"},
    Param{"bulk", Is::text, "what this bulk has done to each task"},
    Param{"action", Is::word,
          "`failed` and `succeeded` are results by consumers for tasks that had ended, or by bulks",
          kAuditActions},
    Param{"who", Is::text, "how the name begins"},
    Param{"since", Is::time, "at this time or later"},
    Param{"until", Is::time, "before this time"},
    kLimit,
    Param{"cursor", Is::cursor, "`next` of the previous page"}};
constexpr std::array kStats{
    Param{"max_overdue", Is::duration, "the bound of overdue_beyond_bound; 1m, if it is not given"}};
constexpr std::array kNodes{Param{"all", Is::flag, "also instances that ended over a day ago"}, kLimit,
                            kIdCursor};

consteval auto table() {
  using enum Action;
  using enum Takes;
  return std::to_array<Route>({
      {"POST", "/v1/tasks", "submitTasks", submit, Scope::body, submit_tasks, {}, json},
      {"GET", "/v1/tasks", "listTasks", read, Scope::none, list_tasks, kTasks},
      {"GET", "/v1/tasks/{id}", "getTask", read, Scope::none, show_task},
      {"GET", "/v1/tasks/{id}/origin", "getTaskOrigin", read, Scope::none, show_origin},
      {"GET", "/v1/tasks/{id}/history", "getTaskHistory", read, Scope::none, show_history, kPage},
      {"GET", "/v1/tasks/{id}/audit", "getTaskAudit", read, Scope::none, show_audit, kPage},
      {"POST", "/v1/tasks/{id}/cancel", "cancelTask", cancel, Scope::changed, change_task, kIfMatch, maybe},
      {"POST", "/v1/tasks/{id}/discard", "discardTask", discard, Scope::changed, change_task, kIfMatch,
       maybe},
      {"POST", "/v1/tasks/{id}/reschedule", "rescheduleTask", reschedule, Scope::changed, change_task,
       kIfMatch, object},
      {"POST", "/v1/tasks/{id}/fire", "fireTask", fire, Scope::changed, change_task, kIfMatch, maybe},
      {"POST", "/v1/tasks/{id}/finish", "finishTask", finish, Scope::changed, change_task, kIfMatch, object},
      {"POST", "/v1/tasks/{id}/redrive", "redriveTask", redrive, Scope::changed, change_task, kIfMatch,
       maybe},
      {"POST", "/v1/tasks/{id}/edit", "editTask", edit, Scope::task, edit_task, kIfMatch, object},
      {"GET", "/v1/tasks/{id}/body", "getTaskBody", body, Scope::task, show_body},
      {"GET", "/v1/tasks/{id}/message", "getTaskMessage", body, Scope::task, show_message},
      {"POST", "/v1/bulks", "createBulk", bulk, Scope::body, create_bulk, {}, object},
      {"GET", "/v1/bulks", "listBulks", read, Scope::none, list_bulks, kPage},
      {"GET", "/v1/bulks/{id}", "getBulk", read, Scope::none, show_bulk},
      {"POST", "/v1/bulks/{id}/pause", "pauseBulk", bulk, Scope::bulk, pause_bulk, {}, maybe},
      {"POST", "/v1/bulks/{id}/resume", "resumeBulk", bulk, Scope::bulk, resume_bulk, {}, maybe},
      {"POST", "/v1/bulks/{id}/abort", "abortBulk", bulk, Scope::bulk, abort_bulk, {}, maybe},
      {"GET", "/v1/causes", "listCauses", read, Scope::none, list_causes, kCauses},
      {"GET", "/v1/causes/{cause}", "getCause", read, Scope::none, show_cause},
      {"POST", "/v1/causes/{cause}", "changeCause", triage, Scope::cause, change_cause, {}, object},
      {"GET", "/v1/you", "getYou", read, Scope::none, show_you, kYou},
      {"GET", "/v1/config", "getConfig", read, Scope::none, show_config},
      {"GET", "/v1/now", "getNow", read, Scope::none, show_now},
      {"GET", "/v1/activity", "getActivity", read, Scope::none, show_activity, kActivity},
      {"GET", "/v1/audit", "listAudit", read, Scope::none, list_audit, kAudit},
      {"POST", "/v1/simulate", "simulate", read, Scope::none, simulate_failure, {}, object},
      {"GET", "/v1/stats", "getStats", read, Scope::none, show_stats, kStats},
      {"GET", "/v1/overview", "getOverview", read, Scope::none, show_overview},
      {"GET", "/v1/nodes", "listNodes", read, Scope::none, list_nodes, kNodes},
      {"GET", "/v1/queues", "listQueues", read, Scope::none, list_queues, kTextPage},
      {"GET", "/v1/queues/{queue}", "getQueue", read, Scope::none, show_queue},
      {"POST", "/v1/queues/{queue}/pause", "pauseQueue", pause, Scope::queue, pause_queue, {}, maybe},
      {"POST", "/v1/queues/{queue}/resume", "resumeQueue", resume, Scope::queue, resume_queue, {}, maybe},
      {"GET", "/healthz", "getHealth", probe, Scope::none, show_health, {}, nothing, true},
      {"GET", "/readyz", "getReadiness", probe, Scope::none, show_ready, {}, nothing, true},
  });
}

constexpr std::array kRoutes = table();

static_assert(name_their_queues(kRoutes));

constexpr Ms kCallTimeout{std::chrono::hours{1}};  // the store has its own

}  // namespace

std::span<const Route> api_routes() { return kRoutes; }

LocalApi::LocalApi(ContextParts parts, std::string who, const Clock& clock)
    : who_(std::move(who)),
      context_(std::move(parts), kCallTimeout, clock),
      router_(context_, {kRoutes.begin(), kRoutes.end()}) {
  context_.most_counted = INT64_MAX;
  context_.counting_stats = TaskCounter::kAll;
}

Response LocalApi::call(const std::string& method, std::string_view target, std::string_view body) {
  Request request;
  request.method = method;
  request.body = body;
  try {
    read_target(target, request);
    const auto found = router_.match(request);
    if (found.route == nullptr) throw no_such_route(found);
    // "alice@host (cli)" is for the audit.
    Call call{request, found.id, who_, {who_.substr(0, who_.find('@')), Role::administers, nullptr}};
    return router_.answer(*found.route, call);
  } catch (const Problem& no) {
    return problem(no, request.path);
  }
}

}  // namespace rung::api
