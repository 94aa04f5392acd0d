// /v1/you, /healthz, /readyz, /metrics.
#include <nlohmann/json.hpp>
#include <set>

#include "src/api/queues/gates.h"
#include "src/api/stats/nodes.h"
#include "src/core/base/time.h"
#include "src/http/access/access.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr Ms kCountWithin{1000};  // how long a scrape waits for its figures
constexpr int kFailingCauses = 100;
constexpr Ms kScrapeCounts{250};  // ended tasks, of a scrape's 15 seconds

// In few queries; only the counts by queue read the tasks' index.
Result<Metrics::Totals> read_totals(MysqlStore& store, api::TaskCounter& counter) {
  Metrics::Totals totals;
  const auto now = store.now();
  if (!now) return tl::unexpected(now.error());
  totals.now = *now;
  auto tasks = counter.count(store, *now, kScrapeCounts);
  if (!tasks) return tl::unexpected(tasks.error());
  totals.by_queue = std::move(tasks->queues);
  auto held = store.held_silences();
  if (!held) return tl::unexpected(held.error());
  totals.silences_held = *std::move(held);
  auto unread = api::unread_queues(store);
  if (!unread) return tl::unexpected(unread.error());
  totals.unread = *std::move(unread);
  auto causes = store.cause_totals();
  if (!causes) return tl::unexpected(causes.error());
  totals.causes = *std::move(causes);
  auto failing = store.causes({.states = {CauseState::fresh, CauseState::regressed},
                               .since = *now - std::chrono::hours{1},
                               .limit = kFailingCauses});
  if (!failing) return tl::unexpected(failing.error());
  totals.failing = *std::move(failing);
  const auto gates = api::gates_in_force(store);
  if (!gates) return tl::unexpected(gates.error());
  for (const QueueGate& gate : *gates) totals.held_back.push_back(gate.queue);
  const auto nodes = store.live_nodes();
  if (!nodes) return tl::unexpected(nodes.error());
  const auto shards = store.shards();
  if (!shards) return tl::unexpected(shards.error());
  totals.nodes = nodes->size();
  totals.unowned = api::unowned_shards(*shards, *nodes, *now);
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

Response show_health(Context& context, const Call& call) {
  if (!context.vitals())
    return problem(503, "the event loop does not respond: this process hangs", call.request.path);
  return answer(200, {{"status", "ok"}});
}

Response show_ready(Context& context, const Call& call) {
  const auto vitals = context.vitals();
  Json checks = Json::object();
  const auto check = [&](const char* name, bool ok) { checks[name] = ok; };
  const Vitals v = vitals.value_or(Vitals{});
  check("broker", v.broker_consuming && v.broker_publishing);
  check("database", v.database);
  check("shards", v.shards > 0);
  check("taking", vitals.has_value() && !v.draining);
  Json problems = Json::array();
  for (const HealthProblem& p : v.problems) {
    if (p.not_ready) check(p.name.c_str(), false);
    problems.push_back({{"name", p.name}, {"detail", p.detail}, {"since", to_rfc3339(p.since)}});
  }
  std::string missing;
  for (const auto& [name, ok] : checks.items()) {
    if (!ok.get<bool>()) missing.append(missing.empty() ? "" : ", ").append(name);
  }
  if (missing.empty()) {
    return answer(200,
                  {{"status", "ready"}, {"checks", checks}, {"problems", problems}, {"config", v.config}});
  }
  return problem(503, "not ready: " + missing, call.request.path,
                 {{"checks", checks}, {"problems", problems}});
}

Response show_metrics(Context& context, const Call&) {
  // If the database doesn't answer in time, the older figures stay, and rung_up says so. A count that is
  // merely slow is ready for the next caller.
  const auto count = [&context] {
    const BootMs began = context.clock.boot();
    auto totals = context.reads.run([&](MysqlStore& store) { return read_totals(store, context.counter); });
    context.counts_failed = !totals;
    if (!totals) return context.metrics.tasks_failed();
    const std::vector<std::string> queues = label_queues(*context.rules(), *totals);
    context.metrics.totals(*totals, queues, context.cause_rules.get());
    context.metrics.tasks_took(context.clock.boot() - began);
  };
  if (context.metrics.wants_tasks()) context.counting.run(count, kCountWithin);
  auto vitals = context.vitals();
  if (vitals) vitals->database = vitals->database && !context.counts_failed;
  Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text(std::move(vitals), context.network->connections());
  return response;
}

// `queue`: what it may do to this queue; empty: to what names no queue.
Response show_you(Context&, const Call& call) {
  const auto queue = call.query.has("queue") ? std::optional(call.query.text("queue")) : std::nullopt;
  return answer(200, person_json(call.person, queue));
}

}  // namespace rung::http
