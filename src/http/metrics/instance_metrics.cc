// The figures of this instance in /metrics: what its event loop says.
#include <algorithm>
#include <array>

#include "src/http/metrics/metrics.h"
#include "src/http/metrics/samples.h"

namespace rung::http {
namespace {

using bridge::FlowCounts;

constexpr std::array<const char*, 4> kInlets{"failed", "results", "delay", "error"};  // as Inlet
constexpr std::array<const char*, 3> kResults{"succeeded", "failed", "malformed"};
constexpr std::array<const char*, 2> kKinds{"retry", "delay"};
constexpr std::array<const char*, 6> kAnswers{"confirmed", "returned", "refused",
                                              "lost",      "fenced",   "rejected"};  // as PublishResult::How
constexpr std::array<const char*, 5> kEnded{"succeeded", "presumed", "failed", "timed_out", "returned"};
constexpr std::array<const char*, 3> kPromised{"in_time", "late", "gated"};
constexpr std::array<const char*, 4> kFinished{"succeeded", "parked", "cancelled", "discarded"};
constexpr std::array<const char*, 5> kDeleted{"tasks", "parts", "audit", "bulks", "events"};

double seconds(Ms length) { return static_cast<double>(length.count()) / 1000; }
double seconds(EpochMs at) { return static_cast<double>(at.ms) / 1000; }

bool has_problem(const Vitals& v, std::string_view name) {
  return std::ranges::find(v.problems, name, &HealthProblem::name) != v.problems.end();
}

// First failures, and deliveries by us that failed. A delay's first failure is the latter.
std::int64_t failures(const FlowCounts::Queue& counts) {
  const auto of = [&](FlowCounts::Ended how) { return counts.ended[static_cast<std::size_t>(how)]; };
  return counts.taken_in[0] + of(FlowCounts::Ended::failed) + of(FlowCounts::Ended::timed_out) +
         of(FlowCounts::Ended::returned);
}

struct Row {
  const char* name;
  MetricType type;
  const char* help;
  void (*tell)(const Vitals& v, Samples& s);
};

constexpr Row kRows[] = {
    {"rung_up", kGauge, "1 if this instance reaches the service, by service.",
     [](const Vitals& v, Samples& s) {
       s.add(v.broker_consuming && v.broker_publishing ? 1 : 0, {{"service", "broker"}});
       s.add(v.database ? 1 : 0, {{"service", "database"}});
     }},
    {"rung_config_reload_failed", kGauge, "1 if the config was not applied by the last reload.",
     [](const Vitals& v, Samples& s) { s.add(has_problem(v, "config") ? 1 : 0); }},
    {"rung_broker_blocked", kGauge, "1 while an alarm of the broker blocks publishing.",
     [](const Vitals& v, Samples& s) { s.add(v.broker_blocked ? 1 : 0); }},
    {"rung_shards_held", kGauge, "Shards that this instance owns, of 64.",
     [](const Vitals& v, Samples& s) { s.add(v.shards); }},
    {"rung_shards_gained_total", kCounter, "Shards that this instance acquired.",
     [](const Vitals& v, Samples& s) { s.add(v.leases.gained); }},
    {"rung_shards_lost_total", kCounter, "Shards whose lease ended against the will of this instance.",
     [](const Vitals& v, Samples& s) { s.add(v.leases.lost); }},
    {"rung_ready_tasks", kGauge, "Due tasks that this instance has in memory and has not claimed yet.",
     [](const Vitals& v, Samples& s) { s.add(v.ready); }},
    {"rung_loaded_tasks", kGauge, "Tasks whose due times this instance has in memory.",
     [](const Vitals& v, Samples& s) { s.add(v.loaded); }},
    {"rung_received_messages_total", kCounter,
     "Messages received from RabbitMQ, by inlet. Repeated deliveries count again.",
     [](const Vitals& v, Samples& s) { s.add_each("inlet", kInlets, v.received); }},
    {"rung_unacked_messages", kGauge, "Received messages that are not recorded and acked yet.",
     [](const Vitals& v, Samples& s) { s.add(v.unacked); }},
    {"rung_intake_stalled_seconds", kGauge,
     "For how long received messages have waited without any of them being acked; 0 = none waits.",
     [](const Vitals& v, Samples& s) { s.add(seconds(v.intake_stalled)); }},
    {"rung_error_queues", kGauge, "Error queues that exist and that this instance consumes.",
     [](const Vitals& v, Samples& s) { s.add(v.error_queues.size()); }},
    {"rung_results_total", kCounter, "Messages on rung.results, by what they say.",
     [](const Vitals& v, Samples& s) {
       s.add_each("result", kResults, std::array{v.results.succeeded, v.results.failed, v.results.malformed});
     }},
    {"rung_results_refused_total", kCounter,
     "Results and failures that named a task without its delivery's retry-token, by inlet.",
     [](const Vitals& v, Samples& s) {
       s.add(v.refused.results, {{"inlet", "results"}});
       s.add(v.refused.failures, {{"inlet", "failed"}});
     }},
    {"rung_rule_decisions_total", kCounter, "Failures that a rule decided about, by rule, at this instance.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [rule, count] : v.decided_by_rule) s.add(count, {{"rule", rule}});
     }},
    {"rung_taken_in_tasks_total", kCounter, "New tasks that this instance recorded, by queue and kind.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add_each("kind", kKinds, counts.taken_in, queue);
     }},
    {"rung_failures_total", kCounter,
     "Failures of this instance's tasks by queue: first failures and failed retries.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add(failures(counts), {{"queue", queue}});
     }},
    {"rung_publishes_total", kCounter,
     "Messages that this instance published when they were due, by queue and the broker's answer.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add_each("result", kAnswers, counts.published, queue);
     }},
    {"rung_deliveries_ended_total", kCounter, "Deliveries that ended, by queue and outcome.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add_each("outcome", kEnded, counts.ended, queue);
     }},
    {"rung_finished_tasks_total", kCounter, "Tasks that reached one of the final states, by queue and state.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add_each("state", kFinished, counts.finished, queue);
     }},
    {"rung_lateness_seconds", kHistogram,
     "Time from a message's due time to the broker's confirm, for messages that this instance published.",
     [](const Vitals& v, Samples& s) { s.add(v.lateness); }},
    {"rung_lateness_by_queue_seconds", kHistogram, "As rung_lateness_seconds, by queue.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) s.add(counts.late, {{"queue", queue}});
     }},
    {"rung_promised_deliveries_total", kCounter,
     "Confirmed deliveries to queues with late_by, by queue, and whether they were within it: late only "
     "because of a gate is gated.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, counts] : v.flow) {
         const PromiseCounts& p = counts.promised;
         if (counts.late_by || p != PromiseCounts{})
           s.add_each("outcome", kPromised, std::array{p.in_time, p.late, p.gated}, queue);
       }
     }},
    {"rung_unconfirmed_messages", kGauge,
     "Messages that this instance has published and the broker has not confirmed.",
     [](const Vitals& v, Samples& s) { s.add(v.unconfirmed); }},
    {"rung_publish_window", kGauge, "The sum of the windows of the queues that this instance publishes to.",
     [](const Vitals& v, Samples& s) { s.add(v.targets.window); }},
    {"rung_quarantined_queues", kGauge,
     "Queues that held up a connection and are probed one message at a time.",
     [](const Vitals& v, Samples& s) { s.add(v.targets.quarantined); }},
    {"rung_queue_attached", kGauge,
     "1 if the queue's dead letters reach Rung; only queues that the config names.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, is] : v.attached) s.add(is ? 1 : 0, {{"queue", queue}});
     }},
    {"rung_silences_held_total", kCounter,
     "Deliveries whose silence this instance held open instead of presuming success.",
     [](const Vitals& v, Samples& s) { s.add(v.silence.held); }},
    {"rung_silences_unverified_total", kCounter,
     "Successes that this instance presumed although nobody could tell whether the queue was attached, or "
     "whether the message had been read.",
     [](const Vitals& v, Samples& s) { s.add(v.silence.unverified); }},
    {"rung_queue_paused", kGauge, "1 for each queue that is paused; the others are not listed.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, gate] : v.closed) {
         if (gate == "paused") s.add(1, {{"queue", queue}});
       }
     }},
    {"rung_queue_closed", kGauge, "1 for each queue that gets no tasks, by the gate that holds them back.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, gate] : v.closed) s.add(1, {{"queue", queue}, {"gate", gate}});
     }},
    {"rung_tasks_behind_gates", kGauge,
     "Due tasks that wait behind a gate or for a rate, as far as this instance has them in memory.",
     [](const Vitals& v, Samples& s) { s.add(v.behind_gates); }},
    {"rung_breaker_changes_total", kCounter, "Breakers that opened or closed, as seen by this instance.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, totals] : v.breakers) {
         s.add(totals.opened, {{"queue", queue}, {"to", "open"}});
         s.add(totals.closed, {{"queue", queue}, {"to", "closed"}});
       }
     }},
    {"rung_breaker_probes_total", kCounter, "Probes of breakers that this instance sent.",
     [](const Vitals& v, Samples& s) {
       for (const auto& [queue, totals] : v.breakers) s.add(totals.probes, {{"queue", queue}});
     }},
    {"rung_topology_repairs_total", kCounter,
     "Exchanges and queues of Rung that were missing in RabbitMQ and that this instance declared again.",
     [](const Vitals& v, Samples& s) { s.add(v.topology_repairs); }},
    {"rung_recognized_messages_total", kCounter,
     "Messages at the intake that Rung recognized: repeats that it acked without a new row (duplicate, "
     "repeat), and messages with the headers of a retry (changed, child, elsewhere), by what they were.",
     [](const Vitals& v, Samples& s) {
       for (std::size_t i = 0; i < v.recognized.size(); ++i)
         s.add(v.recognized[i],
               {{"kind", std::string(bridge::Recognized::to_word(static_cast<bridge::Recognized::As>(i)))}});
     }},
    {"rung_rows_behind_total", kCounter,
     "Results of deliveries that the task's row does not know: the database lost commits.",
     [](const Vitals& v, Samples& s) { s.add(v.rows_behind); }},
    {"rung_refused_publishes_dead_lettered_total", kCounter,
     "Publishes that a full queue refused and dead-lettered all the same: acked, no attempt counted.",
     [](const Vitals& v, Samples& s) { s.add(v.refused_publishes); }},
    {"rung_failures_without_origin_total", kCounter,
     "Failures that a consumer published without the exchange and routing key of its message.",
     [](const Vitals& v, Samples& s) { s.add(v.without_origin); }},
    {"rung_retention_seconds", kGauge, "The configured retention; 0 = nothing is deleted.",
     [](const Vitals& v, Samples& s) { s.add(seconds(v.retention.keep.value_or(Ms{0}))); }},
    {"rung_retention_deleted_total", kCounter, "Items that retention of this instance has deleted, by kind.",
     [](const Vitals& v, Samples& s) {
       const auto& t = v.retention.totals;
       s.add_each("what", kDeleted, std::array{t.tasks, t.partitions, t.audit, t.bulks, t.events});
     }},
    {"rung_retention_last_timestamp_seconds", kGauge,
     "When retention of this instance last deleted something; 0 = never.",
     [](const Vitals& v, Samples& s) { s.add(seconds(v.retention.totals.last.value_or(EpochMs{0}))); }},
    {"rung_retention_completed_timestamp_seconds", kGauge,
     "When retention of this instance last had nothing left to delete, or when this instance took charge of "
     "it, whichever is later; 0 = it never was in charge.",
     [](const Vitals& v, Samples& s) {
       s.add(seconds(v.retention.tasks_done), {{"what", "tasks"}});
       s.add(seconds(v.retention.partitions_done), {{"what", "partitions"}});
     }},
    {"rung_otel_spans_exported_total", kCounter, "Spans that the collector has accepted from this instance.",
     [](const Vitals& v, Samples& s) { s.add(v.spans.exported); }},
    {"rung_otel_spans_dropped_total", kCounter,
     "Spans of this instance that were lost: the collector was away, slow, or refused them.",
     [](const Vitals& v, Samples& s) { s.add(v.spans.dropped); }},
    {"rung_oidc_key_fetches_total", kCounter,
     "Fetches of the identity provider's keys by this instance, by result (ok, failed).",
     [](const Vitals& v, Samples& s) {
       s.add(v.sign_in_keys.fetched, {{"result", "ok"}});
       s.add(v.sign_in_keys.failed, {{"result", "failed"}});
     }},
    {"rung_oidc_keys", kGauge,
     "Keys of the identity provider that tokens may be signed with; 0: none is valid.",
     [](const Vitals& v, Samples& s) { s.add(v.sign_in_keys.valid); }},
};

}  // namespace

void add_instance(const Vitals& vitals, std::vector<prometheus::MetricFamily>& all) {
  for (const Row& row : kRows) {
    Samples samples(row.name, row.type, row.help);
    row.tell(vitals, samples);
    all.push_back(samples.family());
  }
}

}  // namespace rung::http
