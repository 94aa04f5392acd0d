// The figures of this instance in /metrics: what its event loop says.
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <array>

#include "src/http/metrics/metric_families.h"

namespace rung::http {
namespace {

using bridge::FlowCounts;

constexpr std::array<const char*, 4> kInlets{"failed", "results", "delay", "error"};  // as Inlet
constexpr std::array<const char*, 2> kKinds{"retry", "delay"};
constexpr std::array<const char*, 6> kAnswers{"confirmed", "returned", "refused",
                                              "lost",      "fenced",   "rejected"};  // as PublishResult::How
constexpr std::array<const char*, 5> kEnded{"succeeded", "presumed", "failed", "timed_out", "returned"};
constexpr std::array<const char*, 3> kPromised{"in_time", "late", "gated"};  // as PromiseCounts
constexpr std::array<const char*, 4> kFinished{"succeeded", "parked", "cancelled", "discarded"};

double seconds(Ms length) { return static_cast<double>(length.count()) / 1000; }
double seconds(EpochMs at) { return static_cast<double>(at.ms) / 1000; }

// Within a process a count only grows. What is counted elsewhere is set here with each scrape.
void raise(prometheus::Counter& counter, double now) {
  if (const double more = now - counter.Value(); more > 0) counter.Increment(more);
}
void raise(prometheus::Counter& counter, std::int64_t now) { raise(counter, static_cast<double>(now)); }

template <std::size_t N>
void raise_each(Counters& family, const std::string& queue, const char* label,
                const std::array<const char*, N>& words, const std::array<std::int64_t, N>& counts) {
  for (std::size_t i = 0; i < N; ++i) raise(family.Add({{"queue", queue}, {label, words[i]}}), counts[i]);
}

// First failures, and deliveries by us that failed. A delay's first failure is the latter.
std::int64_t failures(const FlowCounts::Queue& counts) {
  const auto of = [&](FlowCounts::Ended how) { return counts.ended[static_cast<std::size_t>(how)]; };
  return counts.taken_in[0] + of(FlowCounts::Ended::failed) + of(FlowCounts::Ended::timed_out) +
         of(FlowCounts::Ended::returned);
}

}  // namespace

void Metrics::vitals(const Vitals* vitals, int connections) {
  const std::lock_guard lock(mutex_);
  families_->connections.Add({}).Set(connections);
  const bool broker = vitals != nullptr && vitals->broker_consuming && vitals->broker_publishing;
  families_->up.Add({{"service", "broker"}}).Set(broker ? 1 : 0);
  families_->up.Add({{"service", "database"}}).Set(vitals != nullptr && vitals->database ? 1 : 0);
  // The loop does not answer: its other figures stay as they were, so that no alert resolves.
  if (vitals == nullptr) return problem("loop").Set(1);
  problems(vitals->problems);
  const bool reload_failed =
      std::ranges::find(vitals->problems, "config", &HealthProblem::name) != vitals->problems.end();
  families_->reload_failed.Add({}).Set(reload_failed ? 1 : 0);
  attachments(*vitals);
  pauses(*vitals);
  gates(*vitals);
  leases(*vitals);
  publishing(*vitals);
  intake(*vitals);
  flow(vitals->flow);
  retention(vitals->retention);
  lateness(families_->lateness, "", vitals->lateness);
  raise(families_->repairs.Add({}), vitals->topology_repairs);
  for (std::size_t i = 0; i < vitals->recognized.size(); ++i) {
    const std::string kind(bridge::Recognized::to_word(static_cast<bridge::Recognized::As>(i)));
    raise(families_->recognized.Add({{"kind", kind}}), vitals->recognized[i]);
  }
  raise(families_->rows_behind.Add({}), vitals->rows_behind);
  raise(families_->refused_publishes.Add({}), vitals->refused_publishes);
  raise(families_->without_origin.Add({}), vitals->without_origin);
  raise(families_->spans_exported.Add({}), vitals->spans.exported);
  raise(families_->spans_dropped.Add({}), vitals->spans.dropped);
  raise(families_->key_fetches.Add({{"result", "ok"}}), vitals->sign_in_keys.fetched);
  raise(families_->key_fetches.Add({{"result", "failed"}}), vitals->sign_in_keys.failed);
  families_->sign_in_keys.Add({}).Set(static_cast<double>(vitals->sign_in_keys.valid));
}

// REQUIRES, for all below: mutex_ is held.

prometheus::Gauge& Metrics::problem(const std::string& name) {
  auto& gauge = families_->problems[name];
  if (gauge == nullptr) gauge = &families_->problem.Add({{"problem", name}});
  return *gauge;
}

void Metrics::problems(const std::vector<HealthProblem>& now) {
  // A resolved problem stays at 0, so that an alert on it resolves.
  for (auto& [name, gauge] : families_->problems) gauge->Set(0);
  for (const HealthProblem& one : now) problem(one.name).Set(1);
}

void Metrics::gates(const Vitals& vitals) {
  for (const auto& [queue, totals] : vitals.breakers) {
    raise(families_->breaker_changes.Add({{"queue", queue}, {"to", "open"}}), totals.opened);
    raise(families_->breaker_changes.Add({{"queue", queue}, {"to", "closed"}}), totals.closed);
    raise(families_->breaker_probes.Add({{"queue", queue}}), totals.probes);
  }
  families_->behind_gates.Add({}).Set(static_cast<double>(vitals.behind_gates));
  raise(families_->rate_values.Add({{"kind", "missing"}}), vitals.rate_values.missing);
  raise(families_->rate_values.Add({{"kind", "digest"}}), vitals.rate_values.digests);
}

void Metrics::leases(const Vitals& vitals) {
  families_->shards.Add({}).Set(vitals.shards);
  raise(families_->shards_gained.Add({}), vitals.leases.gained);
  raise(families_->shards_lost.Add({}), vitals.leases.lost);
  families_->ready.Add({}).Set(static_cast<double>(vitals.ready));
  families_->loaded.Add({}).Set(static_cast<double>(vitals.loaded));
}

void Metrics::publishing(const Vitals& vitals) {
  families_->blocked.Add({}).Set(vitals.broker_blocked ? 1 : 0);
  families_->unconfirmed.Add({}).Set(static_cast<double>(vitals.unconfirmed));
  families_->window.Add({}).Set(static_cast<double>(vitals.targets.window));
  families_->quarantined.Add({}).Set(static_cast<double>(vitals.targets.quarantined));
}

void Metrics::intake(const Vitals& vitals) {
  for (std::size_t i = 0; i < kInlets.size(); ++i)
    raise(families_->received.Add({{"inlet", kInlets[i]}}), vitals.received[i]);
  families_->unacked.Add({}).Set(static_cast<double>(vitals.unacked));
  families_->intake_stalled.Add({}).Set(seconds(vitals.intake_stalled));
  families_->error_queues.Add({}).Set(static_cast<double>(vitals.error_queues.size()));
  raise(families_->results.Add({{"result", "succeeded"}}), vitals.results.succeeded);
  raise(families_->results.Add({{"result", "failed"}}), vitals.results.failed);
  raise(families_->results.Add({{"result", "malformed"}}), vitals.results.malformed);
  raise(families_->results_refused.Add({{"inlet", "results"}}), vitals.refused.results);
  raise(families_->results_refused.Add({{"inlet", "failed"}}), vitals.refused.failures);
  for (const auto& [rule, count] : vitals.decided_by_rule)
    raise(families_->rules.Add({{"rule", rule}}), count);
}

void Metrics::flow(const FlowCounts::ByQueue& by_queue) {
  for (const auto& [queue, counts] : by_queue) {
    raise_each(families_->taken_in, queue, "kind", kKinds, counts.taken_in);
    raise_each(families_->publishes, queue, "result", kAnswers, counts.published);
    raise(families_->failures.Add({{"queue", queue}}), failures(counts));
    raise_each(families_->ended, queue, "outcome", kEnded, counts.ended);
    raise_each(families_->finished, queue, "state", kFinished, counts.finished);
    lateness(families_->late_by_queue, queue, counts.late);
    const PromiseCounts& promised = counts.promised;
    if (counts.late_by || promised != PromiseCounts{})
      raise_each(families_->promised, queue, "outcome", kPromised,
                 std::array{promised.in_time, promised.late, promised.gated});
  }
}

void Metrics::retention(const bridge::RetentionState& now) {
  const auto total = [&](const char* what, std::int64_t count) {
    raise(families_->purged.Add({{"what", what}}), count);
  };
  total("tasks", now.totals.tasks);
  total("parts", now.totals.partitions);
  total("audit", now.totals.audit);
  total("bulks", now.totals.bulks);
  total("events", now.totals.events);
  families_->retention.Add({}).Set(seconds(now.keep.value_or(Ms{0})));
  families_->purge_done.Add({{"what", "tasks"}}).Set(seconds(now.tasks_done));
  families_->purge_done.Add({{"what", "partitions"}}).Set(seconds(now.partitions_done));
  if (now.totals.last) families_->purged_at.Add({}).Set(seconds(*now.totals.last));
}

void Metrics::attachments(const Vitals& vitals) {
  std::map<prometheus::Labels, double> attached;
  for (const auto& [queue, is] : vitals.attached) attached[{{"queue", queue}}] = is ? 1 : 0;
  families_->attached.set(attached);
  raise(families_->held_silences.Add({}), vitals.silence.held);
  raise(families_->unverified.Add({}), vitals.silence.unverified);
}

void Metrics::pauses(const Vitals& vitals) {
  std::map<prometheus::Labels, double> paused, closed;
  for (const auto& [queue, gate] : vitals.closed) {
    closed[{{"queue", queue}, {"gate", gate}}] = 1;
    if (gate == "paused") paused[{{"queue", queue}}] = 1;
  }
  families_->paused.set(paused);
  families_->closed.set(closed);
}

void Metrics::lateness(Histograms& family, const std::string& queue, const bridge::Lateness& now) {
  auto& before = families_->late[queue];
  auto& histogram =
      family.Add(queue.empty() ? prometheus::Labels{} : prometheus::Labels{{"queue", queue}},
                 prometheus::Histogram::BucketBoundaries(now.kSeconds.begin(), now.kSeconds.end()));
  std::vector<double> more;
  for (std::size_t i = 0; i < now.counts.size(); ++i) {
    // Older than what is there: two scrapes at once, and the later one was quicker.
    if (now.counts[i] < before.counts[i]) return;
    more.push_back(static_cast<double>(now.counts[i] - before.counts[i]));
  }
  histogram.ObserveMultiple(more, now.sum - before.sum);
  before = now;
}

}  // namespace rung::http
