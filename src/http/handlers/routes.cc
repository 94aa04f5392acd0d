// The table of all routes of the API.
#include <algorithm>
#include <array>
#include <vector>

#include "src/http/handlers/context.h"
#include "src/http/handlers/router.h"

namespace rung::http {
namespace {

consteval auto table() {
  using enum Action;
  return std::to_array<Route>({
    {"POST", "/v1/tasks", submit, Scope::body, submit_tasks},
    {"GET", "/v1/tasks", read, Scope::none, list_tasks},
    {"GET", "/v1/tasks/{id}", read, Scope::none, show_task},
    {"GET", "/v1/tasks/{id}/origin", read, Scope::none, show_origin},
    {"GET", "/v1/tasks/{id}/history", read, Scope::none, show_history},
    {"GET", "/v1/tasks/{id}/audit", read, Scope::none, show_audit},
    {"POST", "/v1/tasks/{id}/cancel", cancel, Scope::changed, cancel_task},
    {"POST", "/v1/tasks/{id}/discard", discard, Scope::changed, discard_task},
    {"POST", "/v1/tasks/{id}/reschedule", reschedule, Scope::changed, reschedule_task},
    {"POST", "/v1/tasks/{id}/fire", fire, Scope::changed, fire_task},
    {"POST", "/v1/tasks/{id}/finish", finish, Scope::changed, finish_task},
    {"POST", "/v1/tasks/{id}/redrive", redrive, Scope::changed, redrive_task},
    {"POST", "/v1/tasks/{id}/edit", edit, Scope::task, edit_task},
    {"GET", "/v1/tasks/{id}/body", body, Scope::task, show_body},
    {"GET", "/v1/tasks/{id}/message", body, Scope::task, show_message},
    {"POST", "/v1/bulks", bulk, Scope::body, create_bulk},
    {"GET", "/v1/bulks", read, Scope::none, list_bulks},
    {"GET", "/v1/bulks/{id}", read, Scope::none, show_bulk},
    {"POST", "/v1/bulks/{id}/pause", bulk, Scope::bulk, pause_bulk},
    {"POST", "/v1/bulks/{id}/resume", bulk, Scope::bulk, resume_bulk},
    {"POST", "/v1/bulks/{id}/abort", bulk, Scope::bulk, abort_bulk},
    {"GET", "/v1/causes", read, Scope::none, list_causes},
    {"GET", "/v1/causes/{cause}", read, Scope::none, show_cause},
    {"POST", "/v1/causes/{cause}", triage, Scope::cause, change_cause},
    {"GET", "/v1/you", read, Scope::none, show_you},
    {"GET", "/v1/config", read, Scope::none, show_config},
    {"GET", "/v1/now", read, Scope::none, show_now},
    {"GET", "/v1/events", read, Scope::none, show_events},
    {"GET", "/v1/activity", read, Scope::none, show_activity},
    {"GET", "/v1/audit", read, Scope::none, list_audit},
    {"POST", "/v1/simulate", read, Scope::none, simulate_failure},
    {"GET", "/v1/stats", read, Scope::none, show_stats},
    {"GET", "/v1/nodes", read, Scope::none, list_nodes},
    {"GET", "/v1/queues", read, Scope::none, list_queues},
    {"GET", "/v1/queues/{queue}", read, Scope::none, show_queue},
    {"POST", "/v1/queues/{queue}/pause", pause, Scope::queue, pause_queue},
    {"POST", "/v1/queues/{queue}/resume", resume, Scope::queue, resume_queue},
    {"GET", "/healthz", probe, Scope::none, show_health, true},
    {"GET", "/readyz", probe, Scope::none, show_ready, true},
    {"GET", "/metrics", read, Scope::none, show_metrics, true},
    {"GET", "/openapi.json", probe, Scope::none, show_openapi},
    {"GET", "/v1/session", probe, Scope::none, show_session},
    {"POST", "/v1/session", probe, Scope::none, sign_in},
    {"DELETE", "/v1/session", probe, Scope::none, sign_out},
});
}

constexpr std::array kRoutes = table();

// What a token with `queues` may do to those only names them; the handler itself may look for them in two
// bodies alone.
static_assert(std::ranges::all_of(kRoutes, [](const Route& route) {
  return right_of(route.action).by_queue == (route.scope != Scope::none);
}));
static_assert(std::ranges::count(kRoutes, Scope::body, &Route::scope) == 2);

}  // namespace

std::vector<Route> api_routes() { return {kRoutes.begin(), kRoutes.end()}; }

}  // namespace rung::http
