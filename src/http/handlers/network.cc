// The routes that only the network asks for; /metrics, /v1/events.
#include "src/http/handlers/network.h"

#include <algorithm>
#include <array>
#include <set>

#include "src/api/api.h"
#include "src/api/queues/gates.h"
#include "src/api/stats/stats.h"

namespace rung::http {

BackgroundTask::~BackgroundTask() {
  if (thread_.joinable()) thread_.join();
}

bool BackgroundTask::run(std::function<void()> work, Ms most) {
  std::unique_lock lock(mutex_);
  if (!runs_) {
    if (thread_.joinable()) thread_.join();  // it has reported its end
    runs_ = true;
    thread_ = std::thread([this, work = std::move(work)] {
      work();
      const std::lock_guard done(mutex_);
      runs_ = false;
      ended_.notify_all();
    });
  }
  return ended_.wait_for(lock, most, [this] { return !runs_; });
}

namespace {

using api::Action;
using api::need;
using api::Param;
using api::Scope;
using api::Takes;
using Is = Param::Is;

constexpr std::array kEvents{
    Param{"watch", Is::list,
          "At most 20 ids of tasks, with commas between them: `changes` names them when they change by "
          "themselves, too."},
    Param{"Last-Event-ID", Is::header,
          "The `id` of the last event that was received: the first event says that something may have been "
          "missed."}};

Response show_openapi(Context&, const Call&) {
  Response response;
  response.body = openapi_document();
  return response;
}

constexpr std::array kRoutes = std::to_array<Route>({
    {"GET", "/v1/events", "watch", Action::read, Scope::none, show_events, kEvents},
    {"GET", "/metrics", "getMetrics", Action::read, Scope::none, show_metrics, {}, Takes::nothing, true},
    {"GET", "/v1/session", "getSession", Action::probe, Scope::none, show_session},
    {"POST", "/v1/session", "signIn", Action::probe, Scope::none, sign_in, {}, Takes::object},
    {"DELETE", "/v1/session", "signOut", Action::probe, Scope::none, sign_out},
    {"GET", "/openapi.json", "getOpenapi", Action::probe, Scope::none, show_openapi},
});
static_assert(api::name_their_queues(kRoutes));

constexpr Ms kCountWithin{1000};  // how long a scrape waits for its figures
constexpr int kFailingCauses = 100;
constexpr Ms kScrapeCounts{250};  // ended tasks, of a scrape's 15 seconds

// In few queries; only the counts by queue read the tasks' index.
Metrics::Totals read_totals(MysqlStore& store, api::TaskCounter& counter) {
  Metrics::Totals totals;
  totals.now = need(store.now());
  totals.by_queue = need(counter.count(store, totals.now, kScrapeCounts)).queues;
  totals.silences_held = need(store.held_silences());
  totals.unread = api::unread_queues(store);
  totals.causes = need(store.cause_totals());
  totals.failing = need(store.causes({.states = {CauseState::fresh, CauseState::regressed},
                                      .since = totals.now - std::chrono::hours{1},
                                      .limit = kFailingCauses}));
  for (const QueueGate& gate : api::gates_in_force(store)) totals.held_back.push_back(gate.queue);
  const auto nodes = need(store.live_nodes());
  totals.nodes = nodes.size();
  totals.unowned = api::unowned_shards(need(store.shards()), nodes, totals.now);
  return totals;
}

// The queues with a label of their own. What matches a pattern beyond kMostMatched is counted by pattern.
std::vector<std::string> label_queues(const RuleBook& rules, Metrics::Totals& totals) {
  std::set<std::string> labels, matched;
  for (const auto& [name, queue] : rules.queues()) labels.insert(name);
  for (const QueueStat& stat : totals.by_queue) {
    if (rules.pattern_of(stat.queue) == nullptr) continue;
    const bool room = matched.contains(stat.queue) || matched.size() < bridge::FlowCounts::kMostMatched;
    std::string label = bridge::matched_label(rules, stat.queue, room);
    if (label == stat.queue) matched.insert(label);
    if (label != stat.queue) totals.labels[stat.queue] = label;
    labels.insert(std::move(label));
  }
  return {labels.begin(), labels.end()};
}

}  // namespace

std::vector<Route> all_routes() {
  const auto shared = api::api_routes();
  std::vector<Route> all(shared.begin(), shared.end());
  all.insert(all.end(), kRoutes.begin(), kRoutes.end());
  return all;
}

Response show_metrics(Context& context, const Call&) {
  Network& network = *context.network;
  // If the database doesn't answer in time, the older figures stay, and rung_up says so. A count that is
  // merely slow is ready for the next caller.
  const auto count = [&context, &network] {
    const BootMs began = context.clock.boot();
    auto totals =
        context.reads.result_of([&](MysqlStore& store) { return read_totals(store, context.counter); });
    network.counts_failed = !totals;
    if (!totals) return network.metrics.tasks_failed();
    const std::vector<std::string> queues = label_queues(*context.rules(), *totals);
    network.metrics.totals(*totals, queues, context.cause_rules.get());
    network.metrics.tasks_took(context.clock.boot() - began);
  };
  if (network.metrics.wants_tasks()) network.counting.run(count, kCountWithin);
  auto vitals = context.vitals();
  if (vitals) vitals->database = vitals->database && !network.counts_failed;
  Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = network.metrics.text(std::move(vitals), network.connections(), context.counts());
  return response;
}

// `watch=4711,4712`: tasks whose changes are told.
Response show_events(Context& context, const Call& call) {
  std::vector<TaskId> watched;
  for (const std::string& word : call.query.words("watch")) {
    const auto id = TaskId::parse(word);
    if (!id || watched.size() == LiveFeed::kMostOfOneViewer)
      return call.problem(
          api::FieldErrors{{"watch", "must be at most " + std::to_string(LiveFeed::kMostOfOneViewer) +
                                         " ids of tasks, with commas between them"}});
    watched.push_back(*id);
  }
  Response response;
  response.stream = context.network->live.open(call.who, std::move(watched), call.request.last_event_id);
  if (response.stream == nullptr) {
    response =
        call.problem(503,
                     "too many streams of events: a quarter of http.connections, of which one token may "
                     "have three quarters from one address");
    response.headers.emplace_back("Retry-After", "10");
    return response;
  }
  response.type = "text/event-stream";
  response.headers.emplace_back("X-Accel-Buffering", "no");  // of a proxy
  return response;
}

const std::string& openapi_document() {
  static const std::string text = api::openapi_document(all_routes());
  return text;
}

}  // namespace rung::http
