#include "src/http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>

namespace rung::http {
namespace {

constexpr Ms kFresh{std::chrono::seconds{15}};

// From a submit that shares a commit up to one that waits for a slow database.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,   0.25,  0.5,   1,    2.5,   10};

constexpr std::array<State, 7> kStates{State::scheduled, State::publishing, State::awaiting, State::succeeded,
                                       State::parked,    State::cancelled,  State::discarded};

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      counter("rung_http_requests_total", "Requests answered, by route, method and status.");
  prometheus::Family<prometheus::Histogram>& seconds =
      histogram("rung_http_request_duration_seconds",
                "Time to answer a request, from its whole body, by route and method.");
  prometheus::Family<prometheus::Counter>& submitted =
      counter("rung_submitted_tasks_total", "Tasks submitted to this instance by HTTP, by result.");
  prometheus::Family<prometheus::Counter>& changes = counter(
      "rung_changes_total", "Changes of single tasks by HTTP at this instance, by action and result.");
  prometheus::Family<prometheus::Gauge>& tasks =
      gauge("rung_tasks",
            "Tasks in the database by queue and state, all instances. As of some seconds ago. Queues that "
            "the config "
            "does not name are together in queue=\"(other)\".");
  prometheus::Family<prometheus::Gauge>& overdue =
      gauge("rung_overdue_tasks", "Scheduled tasks that are overdue, all instances.");
  prometheus::Family<prometheus::Gauge>& up =
      gauge("rung_up", "1 if this instance reaches the service, by service.");
  prometheus::Family<prometheus::Gauge>& shards =
      gauge("rung_shards_held", "Shards that this instance owns, of 64.");
  prometheus::Family<prometheus::Gauge>& connections =
      gauge("rung_http_connections", "Open HTTP connections of this instance.");
  prometheus::Family<prometheus::Counter>& purged =
      counter("rung_retention_deleted_total", "Items that retention of this instance has deleted, by kind.");
  prometheus::Family<prometheus::Gauge>& purged_at =
      gauge("rung_retention_last_timestamp_seconds",
            "When retention of this instance last deleted something; 0 = never.");
  prometheus::Family<prometheus::Counter>& results_refused =
      counter("rung_results_refused_total",
              "Results and failures that named a task without its delivery's retry-token, by inlet.");
  prometheus::Family<prometheus::Gauge>& problem =
      gauge("rung_problem", "1 while this instance has the problem; /readyz says what it is.");
  prometheus::Family<prometheus::Counter>& repairs = counter(
      "rung_topology_repairs_total",
      "Exchanges and queues of Rung that were missing in RabbitMQ and that this instance declared again.");
  prometheus::Family<prometheus::Counter>& rows_behind =
      counter("rung_rows_behind_total",
              "Results of deliveries that the task's row does not know: the database lost commits.");
  prometheus::Family<prometheus::Counter>& rules =
      counter("rung_rule_decisions_total", "Failures that a rule decided about, by rule, at this instance.");
  prometheus::Family<prometheus::Histogram>& lateness = histogram(
      "rung_lateness_seconds",
      "Time from a message's due time to the broker's confirm, for messages that this instance published.");
  prometheus::Family<prometheus::Gauge>& unconfirmed =
      gauge("rung_unconfirmed_messages",
            "Messages that this instance has published and the broker has not confirmed.");
  prometheus::Family<prometheus::Gauge>& window =
      gauge("rung_publish_window", "The sum of the windows of the queues that this instance publishes to.");
  prometheus::Family<prometheus::Gauge>& quarantined = gauge(
      "rung_quarantined_queues", "Queues that held up a connection and are probed one message at a time.");
  prometheus::Family<prometheus::Gauge>& attached = gauge(
      "rung_queue_attached", "1 if the queue's dead letters reach Rung; only queues that the config names.");
  prometheus::Family<prometheus::Gauge>& error_queues =
      gauge("rung_error_queues", "Error queues that exist and that this instance consumes, or that rest.");
  prometheus::Family<prometheus::Gauge>& paused =
      gauge("rung_queue_paused", "1 for each queue that is paused; the others are not listed.");
  prometheus::Family<prometheus::Gauge>& closed =
      gauge("rung_queue_closed", "1 for each queue that gets no tasks, by the gate that holds them back.");
  prometheus::Family<prometheus::Gauge>& behind_gates =
      gauge("rung_tasks_behind_gates",
            "Due tasks that wait behind a gate or for a rate, as far as this instance has them in memory.");
  prometheus::Family<prometheus::Counter>& breaker_changes =
      counter("rung_breaker_changes_total", "Breakers that opened or closed, as seen by this instance.");
  prometheus::Family<prometheus::Counter>& breaker_probes =
      counter("rung_breaker_probes_total", "Probes of breakers that this instance sent.");
  prometheus::Family<prometheus::Counter>& spans_exported =
      counter("rung_otel_spans_exported_total", "Spans that the collector has accepted from this instance.");
  prometheus::Family<prometheus::Counter>& spans_dropped =
      counter("rung_otel_spans_dropped_total",
              "Spans of this instance that were lost: the collector was away, slow, or refused them.");
  prometheus::Family<prometheus::Gauge>& build = gauge(
      "rung_build_info", "Always 1; the version is a label, and so is the group if the config has groups.");

  std::map<std::string, prometheus::Gauge*> problems;         // guarded by mutex_
  bridge::Lateness late;                                      // contents of the histogram; guarded by mutex_
  std::map<std::string, prometheus::Gauge*> attached_queues;  // guarded by mutex_
  std::map<std::string, prometheus::Gauge*> paused_queues;    // guarded by mutex_
  std::map<std::pair<std::string, std::string>, prometheus::Gauge*> closed_queues;  // guarded by mutex_

  prometheus::Family<prometheus::Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
};

Metrics::Metrics(std::string_view version, std::string_view group, const Clock& clock)
    : clock_(clock), families_(std::make_unique<Families>()) {
  prometheus::Labels labels = {{"version", std::string(version)}};
  if (!group.empty()) labels.emplace("group", group);
  families_->build.Add(labels).Set(1);
  for (const char* result : {"created", "same", "conflict", "invalid", "failed"})
    families_->submitted.Add({{"result", result}});
  families_->purged_at.Add({}).Set(0);
}

Metrics::~Metrics() = default;

void Metrics::request(std::string_view route, std::string_view method, int status, double seconds) {
  families_->requests
      .Add({{"route", std::string(route)},
            {"method", std::string(method)},
            {"status", std::to_string(status)}})
      .Increment();
  if (seconds < 0) return;
  families_->seconds.Add({{"route", std::string(route)}, {"method", std::string(method)}}, kSeconds)
      .Observe(seconds);
}

void Metrics::submitted(Submitted how, std::int64_t tasks) {
  constexpr std::array<const char*, 5> kWords{"created", "same", "conflict", "invalid", "failed"};
  families_->submitted.Add({{"result", kWords[static_cast<std::size_t>(how)]}})
      .Increment(static_cast<double>(tasks));
}

void Metrics::changed(std::string_view what, Changed how) {
  constexpr std::array<const char*, 4> kWords{"applied", "unchanged", "refused", "failed"};
  families_->changes.Add({{"action", std::string(what)}, {"result", kWords[static_cast<std::size_t>(how)]}})
      .Increment();
}

void Metrics::vitals(const Vitals& vitals, int connections) {
  const std::lock_guard lock(mutex_);
  families_->up.Add({{"service", "broker"}}).Set(vitals.broker_consuming && vitals.broker_publishing ? 1 : 0);
  families_->up.Add({{"service", "database"}}).Set(vitals.database ? 1 : 0);
  families_->shards.Add({}).Set(vitals.shards);
  families_->connections.Add({}).Set(connections);
  // A resolved problem stays at 0, so that an alert on it resolves.
  for (auto& [name, gauge] : families_->problems) gauge->Set(0);
  for (const HealthProblem& problem : vitals.problems) {
    auto& gauge = families_->problems[problem.name];
    if (gauge == nullptr) gauge = &families_->problem.Add({{"problem", problem.name}});
    gauge->Set(1);
  }
  attachments(vitals);
  pauses(vitals);
  const auto& done = vitals.retention;
  const auto raise = [](prometheus::Counter& counter, std::int64_t now) {
    const double more = static_cast<double>(now) - counter.Value();
    if (more > 0) counter.Increment(more);  // a loop that doesn't answer reports 0
  };
  raise(families_->results_refused.Add({{"inlet", "results"}}), vitals.refused.results);
  raise(families_->results_refused.Add({{"inlet", "failed"}}), vitals.refused.failures);
  raise(families_->rows_behind.Add({}), vitals.rows_behind);
  raise(families_->spans_exported.Add({}), vitals.spans.exported);
  raise(families_->spans_dropped.Add({}), vitals.spans.dropped);
  for (const auto& [rule, count] : vitals.decided_by_rule)
    raise(families_->rules.Add({{"rule", rule}}), count);
  for (const auto& [queue, totals] : vitals.breakers) {
    raise(families_->breaker_changes.Add({{"queue", queue}, {"to", "open"}}), totals.opened);
    raise(families_->breaker_changes.Add({{"queue", queue}, {"to", "closed"}}), totals.closed);
    raise(families_->breaker_probes.Add({{"queue", queue}}), totals.probes);
  }
  const auto total = [&](const char* what, std::int64_t now) {
    raise(families_->purged.Add({{"what", what}}), now);
  };
  total("tasks", done.tasks);
  total("parts", done.partitions);
  total("audit", done.audit);
  total("bulks", done.bulks);
  total("events", done.events);
  families_->unconfirmed.Add({}).Set(static_cast<double>(vitals.unconfirmed));
  families_->window.Add({}).Set(static_cast<double>(vitals.targets.window));
  families_->quarantined.Add({}).Set(static_cast<double>(vitals.targets.quarantined));
  lateness(vitals.lateness);
  auto& repairs = families_->repairs.Add({});
  if (const double more = static_cast<double>(vitals.topology_repairs) - repairs.Value(); more > 0)
    repairs.Increment(more);
  if (done.last) families_->purged_at.Add({}).Set(static_cast<double>(done.last->ms) / 1000);
}

// REQUIRES: mutex_ is held.
void Metrics::attachments(const Vitals& vitals) {
  auto& gauges = families_->attached_queues;
  for (auto it = gauges.begin(); it != gauges.end();) {
    const bool stays =
        std::ranges::any_of(vitals.attached, [&](const auto& q) { return q.first == it->first; });
    if (!stays) families_->attached.Remove(it->second);
    it = stays ? std::next(it) : gauges.erase(it);
  }
  for (const auto& [queue, attached] : vitals.attached) {
    auto& gauge = gauges[queue];
    if (gauge == nullptr) gauge = &families_->attached.Add({{"queue", queue}});
    gauge->Set(attached ? 1 : 0);
  }
}

// REQUIRES: mutex_ is held.
void Metrics::pauses(const Vitals& vitals) {
  auto& gauges = families_->paused_queues;
  std::erase_if(gauges, [&](const auto& gauge) {
    const bool goes = std::ranges::find(vitals.closed, std::pair{gauge.first, std::string("paused")}) ==
                      vitals.closed.end();
    if (goes) families_->paused.Remove(gauge.second);
    return goes;
  });
  auto& closed = families_->closed_queues;
  std::erase_if(closed, [&](const auto& gauge) {
    const bool goes = std::ranges::find(vitals.closed, gauge.first) == vitals.closed.end();
    if (goes) families_->closed.Remove(gauge.second);
    return goes;
  });
  for (const auto& entry : vitals.closed) {
    auto& by_state = closed[entry];
    if (by_state == nullptr)
      by_state = &families_->closed.Add({{"queue", entry.first}, {"gate", entry.second}});
    by_state->Set(1);
    if (entry.second != "paused") continue;
    auto& gauge = gauges[entry.first];
    if (gauge == nullptr) gauge = &families_->paused.Add({{"queue", entry.first}});
    gauge->Set(1);
  }
  families_->error_queues.Add({}).Set(static_cast<double>(vitals.error_queues.size()));
  families_->behind_gates.Add({}).Set(static_cast<double>(vitals.behind_gates));
}

// REQUIRES: mutex_ is held.
void Metrics::lateness(const bridge::Lateness& now) {
  auto& before = families_->late;
  auto& histogram = families_->lateness.Add(
      {}, prometheus::Histogram::BucketBoundaries(now.kSeconds.begin(), now.kSeconds.end()));
  std::vector<double> more;
  for (std::size_t i = 0; i < now.counts.size(); ++i) {
    if (now.counts[i] < before.counts[i]) return;  // a loop that does not answer reports 0
    more.push_back(static_cast<double>(now.counts[i] - before.counts[i]));
  }
  histogram.ObserveMultiple(more, now.sum - before.sum);
  before = now;
}

void Metrics::tasks(const std::vector<QueueStat>& by_queue, const std::vector<std::string>& queues) {
  constexpr const char* kOther = "(other)";
  double overdue = 0;
  std::map<std::pair<std::string, State>, double> tasks;
  const auto shown = [&](const std::string& queue) {
    return std::ranges::find(queues, queue) != queues.end();
  };
  for (const State state : kStates) {
    tasks[{kOther, state}] = 0;
    for (const std::string& queue : queues) {
      if (shown(queue)) tasks[{queue, state}] = 0;
    }
  }
  for (const QueueStat& stat : by_queue) {
    tasks[{shown(stat.queue) ? stat.queue : kOther, stat.state}] += static_cast<double>(stat.tasks);
    overdue += static_cast<double>(stat.overdue);
  }
  for (const auto& [of, count] : tasks)
    families_->tasks.Add({{"queue", of.first}, {"state", std::string(to_word(of.second))}}).Set(count);
  families_->overdue.Add({}).Set(overdue);
}

bool Metrics::wants_tasks() {
  const std::lock_guard lock(mutex_);
  const BootMs now = clock_.boot();
  if (now < fresh_until_) return false;
  fresh_until_ = now + kFresh;
  return true;
}

void Metrics::tasks_took(Ms took) {
  const std::lock_guard lock(mutex_);
  // Counting takes at most a twentieth of the time.
  fresh_until_ = clock_.boot() + std::max(kFresh, took * 20);
}

void Metrics::tasks_failed() {
  const std::lock_guard lock(mutex_);
  fresh_until_ = clock_.boot();
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace rung::http
