#include "src/http/metrics/metrics.h"

#include <charconv>
#include <cmath>

#include "src/core/base/utf8.h"
#include "src/core/causes/fingerprint.h"

namespace rung::http {
namespace {

// --- the text format

constexpr const char *kCounter = "counter", *kGauge = "gauge", *kHistogram = "histogram";
using Labels = std::map<std::string, std::string>;

class Text {
 public:
  // The samples that follow are of this metric. One without samples is not there.
  Text& metric(const char* name, const char* type, const char* help) {
    name_ = name;
    head_ = std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    return *this;
  }
  void add(auto value, const Labels& labels = {}) { sample("", labels, "", static_cast<double>(value)); }
  // Each count with its word; `queue`: "" = no such label.
  template <std::size_t N, typename Count>
  void add_each(const char* label, const std::array<std::string_view, N>& words,
                const std::array<Count, N>& counts, const std::string& queue = "") {
    for (std::size_t i = 0; i < N; ++i) {
      Labels labels = {{label, std::string(words[i])}};
      if (!queue.empty()) labels.emplace("queue", queue);
      add(counts[i], labels);
    }
  }
  template <const auto& kSeconds>
  void add(const bridge::Histogram<kSeconds>& histogram, const Labels& labels = {}) {
    std::int64_t count = 0;
    for (const std::int64_t one : histogram.counts) count += one;
    sample("_count", labels, "", static_cast<double>(count));
    sample("_sum", labels, "", histogram.sum);
    count = 0;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
      count += histogram.counts[i];
      const std::string bound = i < std::size(kSeconds) ? digits(kSeconds[i]) : "+Inf";
      sample("_bucket", labels, bound, static_cast<double>(count));
    }
  }
  std::string text() const { return text_; }

 private:
  static std::string digits(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15)
      return std::to_string(static_cast<std::int64_t>(value));
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
  }
  // `le`: the bound of a bucket, "" = none.
  void sample(const char* suffix, const Labels& labels, const std::string& le, double value) {
    text_.append(std::exchange(head_, "")).append(name_).append(suffix);
    char before = '{';
    const auto label = [&](std::string_view name, std::string_view of) {
      text_.append(1, std::exchange(before, ',')).append(name).append("=\"");
      for (const char c : of) {
        if (c == '\\' || c == '"') text_ += '\\';
        text_.append(c == '\n' ? "\\n" : std::string(1, c));
      }
      text_ += '"';
    };
    for (const auto& [name, of] : labels) label(name, of);
    if (!le.empty()) label("le", le);
    text_.append(before == ',' ? "} " : " ").append(digits(value)) += '\n';
  }

  std::string name_, head_, text_;
};

// --- what the event loop of this instance says

constexpr std::array<std::string_view, 4> kInlets{"failed", "results", "delay", "error"};  // as Inlet
constexpr std::array<std::string_view, 3> kResults{"succeeded", "failed", "malformed"};
constexpr std::array<std::string_view, 6> kAnswers{"confirmed", "returned", "refused", "lost",
                                                   "fenced",    "rejected"};  // as PublishResult::How
constexpr std::array<std::string_view, 5> kEnded{"succeeded", "failed", "timed_out", "returned",
                                                 "presumed"};  // as FlowCounts::Ended
constexpr std::array<std::string_view, 3> kPromised{"in_time", "late", "gated"};
constexpr std::array<std::string_view, 4> kFinished{"succeeded", "parked", "cancelled", "discarded"};
constexpr std::array<std::string_view, 5> kDeleted{"tasks", "parts", "audit", "bulks", "events"};

double seconds(Ms length) { return static_cast<double>(length.count()) / 1000; }
double seconds(EpochMs at) { return static_cast<double>(at.ms) / 1000; }

bool has_problem(const Vitals& v, std::string_view name) {
  return std::ranges::find(v.problems, name, &HealthProblem::name) != v.problems.end();
}

void tell(const Vitals& v, Text& s) {
  s.metric("rung_up", kGauge, "1 if this instance reaches the service, by service.");
  s.add(v.broker_consuming && v.broker_publishing ? 1 : 0, {{"service", "broker"}});
  s.add(v.database ? 1 : 0, {{"service", "database"}});
  s.metric("rung_config_reload_failed", kGauge, "1 if the config was not applied by the last reload.")
      .add(has_problem(v, "config") ? 1 : 0);
  s.metric("rung_broker_blocked", kGauge, "1 while an alarm of the broker blocks publishing.")
      .add(v.broker_blocked ? 1 : 0);
  s.metric("rung_shards_held", kGauge, "Shards that this instance owns, of 64.").add(v.shards);
  s.metric("rung_shards_gained_total", kCounter, "Shards that this instance acquired.").add(v.shards_gained);
  s.metric("rung_shards_lost_total", kCounter, "Shards whose lease ended against the will of this instance.")
      .add(v.shards_lost);
  s.metric("rung_ready_tasks", kGauge, "Due tasks that this instance has in memory and has not claimed yet.")
      .add(v.ready);
  s.metric("rung_loaded_tasks", kGauge, "Tasks whose due times this instance has in memory.").add(v.loaded);
  s.metric("rung_received_messages_total", kCounter,
           "Messages received from RabbitMQ, by inlet. Repeated deliveries count again.")
      .add_each("inlet", kInlets, v.received);
  s.metric("rung_unacked_messages", kGauge, "Received messages that are not recorded and acked yet.")
      .add(v.unacked);
  s.metric("rung_intake_stalled_seconds", kGauge,
           "For how long received messages have waited without any of them being acked; 0 = none waits.")
      .add(seconds(v.intake_stalled));
  s.metric("rung_error_queues", kGauge, "Error queues that exist and that this instance consumes.")
      .add(v.error_queues.size());
  s.metric("rung_results_total", kCounter, "Messages on rung.results, by what they say.")
      .add_each("result", kResults, std::array{v.results.succeeded, v.results.failed, v.results.malformed});
  s.metric("rung_results_refused_total", kCounter,
           "Results and failures that named a task without its delivery's retry-token, by inlet.");
  s.add(v.refused_results, {{"inlet", "results"}});
  s.add(v.refused_failures, {{"inlet", "failed"}});
  s.metric("rung_rule_decisions_total", kCounter,
           "Failures that a rule decided about, by rule, at this instance.");
  for (const auto& [rule, count] : v.decided_by_rule) s.add(count, {{"rule", rule}});
  s.metric("rung_taken_in_tasks_total", kCounter,
           "New tasks that this instance recorded, by queue and kind.");
  for (const auto& [queue, counts] : v.flow) s.add_each("kind", kWords<Kind>, counts.taken_in, queue);
  s.metric("rung_failures_total", kCounter,
           "Failures of this instance's tasks by queue: first failures and failed retries.");
  for (const auto& [queue, counts] : v.flow) s.add(counts.activity().failed, {{"queue", queue}});
  s.metric("rung_publishes_total", kCounter,
           "Messages that this instance published when they were due, by queue and the broker's answer.");
  for (const auto& [queue, counts] : v.flow) s.add_each("result", kAnswers, counts.published, queue);
  s.metric("rung_deliveries_ended_total", kCounter, "Deliveries that ended, by queue and outcome.");
  for (const auto& [queue, counts] : v.flow) s.add_each("outcome", kEnded, counts.ended, queue);
  s.metric("rung_finished_tasks_total", kCounter,
           "Tasks that reached one of the final states, by queue and state.");
  for (const auto& [queue, counts] : v.flow) s.add_each("state", kFinished, counts.finished, queue);
  s.metric(
      "rung_lateness_seconds", kHistogram,
      "Time from a message's due time to the broker's confirm, for messages that this instance published.");
  bridge::Lateness all;
  for (const auto& [queue, counts] : v.flow) all += counts.late;
  s.add(all);
  s.metric("rung_lateness_by_queue_seconds", kHistogram, "As rung_lateness_seconds, by queue.");
  for (const auto& [queue, counts] : v.flow) s.add(counts.late, {{"queue", queue}});
  s.metric(
      "rung_promised_deliveries_total", kCounter,
      "Confirmed deliveries to queues with late_by, by queue, and whether they were within it: late only "
      "because of a gate is gated.");
  for (const auto& [queue, counts] : v.flow) {
    const PromiseCounts& p = counts.promised;
    if (counts.late_by || p != PromiseCounts{})
      s.add_each("outcome", kPromised, std::array{p.in_time, p.late, p.gated}, queue);
  }
  s.metric("rung_unconfirmed_messages", kGauge,
           "Messages that this instance has published and the broker has not confirmed.")
      .add(v.unconfirmed);
  s.metric("rung_publish_window", kGauge,
           "The sum of the windows of the queues that this instance publishes to.")
      .add(v.targets.window);
  s.metric("rung_quarantined_queues", kGauge,
           "Queues that held up a connection and are probed one message at a time.")
      .add(v.targets.quarantined);
  s.metric("rung_queue_attached", kGauge,
           "1 if the queue's dead letters reach Rung; only queues that the config names.");
  for (const auto& [queue, is] : v.attached) s.add(is ? 1 : 0, {{"queue", queue}});
  s.metric("rung_silences_held_total", kCounter,
           "Deliveries whose silence this instance held open instead of presuming success.")
      .add(v.silences_held);
  s.metric(
       "rung_silences_unverified_total", kCounter,
       "Successes that this instance presumed without knowing whether the queue was attached, or whether the "
       "message had been read.")
      .add(v.silences_unverified);
  s.metric("rung_queue_paused", kGauge, "1 for each queue that is paused; the others are not listed.");
  for (const auto& [queue, gate] : v.closed) {
    if (gate == "paused") s.add(1, {{"queue", queue}});
  }
  s.metric("rung_queue_closed", kGauge,
           "1 for each queue that gets no tasks, by the gate that holds them back.");
  for (const auto& [queue, gate] : v.closed) s.add(1, {{"queue", queue}, {"gate", gate}});
  s.metric("rung_tasks_behind_gates", kGauge,
           "Due tasks that wait behind a gate or for a rate, as far as this instance has them in memory.")
      .add(v.behind_gates);
  s.metric("rung_breaker_changes_total", kCounter,
           "Breakers that opened or closed, as seen by this instance.");
  for (const auto& [queue, totals] : v.breakers) {
    s.add(totals.opened, {{"queue", queue}, {"to", "open"}});
    s.add(totals.closed, {{"queue", queue}, {"to", "closed"}});
  }
  s.metric("rung_breaker_probes_total", kCounter, "Probes of breakers that this instance sent.");
  for (const auto& [queue, totals] : v.breakers) s.add(totals.probes, {{"queue", queue}});
  s.metric(
       "rung_topology_repairs_total", kCounter,
       "Exchanges and queues of Rung that were missing in RabbitMQ and that this instance declared again.")
      .add(v.topology_repairs);
  s.metric(
       "rung_recognized_messages_total", kCounter,
       "Messages at the intake that Rung recognized: repeats that it acked without a new row (duplicate, "
       "repeat), and messages with the headers of a retry (changed, child, elsewhere), by what they were.")
      .add_each("kind", bridge::kRecognizedWords, v.recognized);
  s.metric("rung_rows_behind_total", kCounter,
           "Results of deliveries that the task's row does not know: the database lost commits.")
      .add(v.rows_behind);
  s.metric("rung_refused_publishes_dead_lettered_total", kCounter,
           "Publishes that a full queue refused and dead-lettered all the same: acked, no attempt counted.")
      .add(v.refused_publishes);
  s.metric("rung_failures_without_origin_total", kCounter,
           "Failures that a consumer published without the exchange and routing key of its message.")
      .add(v.without_origin);
  s.metric("rung_retention_seconds", kGauge, "The configured retention; 0 = nothing is deleted.")
      .add(seconds(v.retention.keep.value_or(Ms{0})));
  s.metric("rung_retention_deleted_total", kCounter,
           "Items that retention of this instance has deleted, by kind.");
  const auto& t = v.retention.totals;
  s.add_each("what", kDeleted, std::array{t.tasks, t.partitions, t.audit, t.bulks, t.events});
  s.metric("rung_retention_last_timestamp_seconds", kGauge,
           "When retention of this instance last deleted something; 0 = never.")
      .add(seconds(v.retention.totals.last.value_or(EpochMs{0})));
  s.metric(
      "rung_retention_completed_timestamp_seconds", kGauge,
      "When retention of this instance last had nothing left to delete, or when this instance took charge of "
      "it, whichever is later; 0 = it never was in charge.");
  s.add(seconds(v.retention.tasks_done), {{"what", "tasks"}});
  s.add(seconds(v.retention.partitions_done), {{"what", "partitions"}});
  s.metric("rung_otel_spans_exported_total", kCounter,
           "Spans that the collector has accepted from this instance.")
      .add(v.spans.exported);
  s.metric("rung_otel_spans_dropped_total", kCounter,
           "Spans of this instance that were lost: the collector was away, slow, or refused them.")
      .add(v.spans.dropped);
  s.metric("rung_oidc_key_fetches_total", kCounter,
           "Fetches of the identity provider's keys by this instance, by result (ok, failed).");
  s.add(v.sign_in_keys.fetched, {{"result", "ok"}});
  s.add(v.sign_in_keys.failed, {{"result", "failed"}});
  s.metric("rung_oidc_keys", kGauge,
           "Keys of the identity provider that tokens may be signed with; 0: none is valid.")
      .add(v.sign_in_keys.valid);
}

// --- what the database says of all instances

// Its error without what varies, which may be personal.
Labels labels_of(const CauseRow& cause, const CauseRules* rules) {
  constexpr std::size_t kNameBytes = 120;
  const std::string text = cause_text(cause.sample, rules);
  return {{"queue", cause.queue},
          {"cause", cause.id},
          {"error", clean_utf8(cause.error_type.empty() ? text : cause.error_type + ": " + text, kNameBytes)},
          {"state", std::string(cause.worse_at ? "worse" : to_word(cause.state))}};
}

}  // namespace

void Metrics::request(std::string_view route, std::string_view method, int status, double seconds) {
  const Route key(route, method);
  const std::lock_guard lock(mutex_);
  ++requests_[{key, status}];
  if (seconds < 0) return;
  durations_[key].add(std::chrono::duration<double>(seconds));
}

void Metrics::totals(const Totals& totals, const std::vector<std::string>& queues, const CauseRules* rules) {
  constexpr const char* kOther = bridge::FlowCounts::kOther;
  std::int64_t overdue = 0;
  std::map<std::pair<std::string, State>, std::int64_t> tasks;
  std::map<std::string, Ms> oldest{{kOther, Ms{0}}};
  for (const std::string& queue : queues) oldest[queue] = Ms{0};
  for (const auto& [queue, age] : oldest)
    for (const std::string_view word : kWords<State>) tasks[{queue, *from_word<State>(word)}] = 0;
  for (const QueueStat& stat : totals.by_queue) {
    const auto shared = totals.labels.find(stat.queue);
    const std::string& label = shared != totals.labels.end() ? shared->second : stat.queue;
    const std::string queue = oldest.contains(label) ? label : kOther;
    tasks[{queue, stat.state}] += stat.tasks;
    overdue += stat.overdue;
    const bool held = std::ranges::find(totals.held_back, stat.queue) != totals.held_back.end();
    if (stat.oldest_due_at && !held)
      oldest[queue] = std::max(oldest[queue], totals.now - *stat.oldest_due_at);
  }
  Text text;
  const auto by_queue = [&](const std::map<std::string, std::int64_t>& counts) {
    std::map<std::string, std::int64_t> out;
    for (const auto& [queue, age] : oldest) out[queue] = 0;
    for (const auto& [queue, count] : counts) out[oldest.contains(queue) ? queue : kOther] += count;
    for (const auto& [queue, count] : out) text.add(count, {{"queue", queue}});
  };
  text.metric(
      "rung_tasks", kGauge,
      "Tasks in the database by queue and state, all instances. As of some seconds ago. Queues that the "
      "config does not name are together in queue=\"(other)\".");
  for (const auto& [key, count] : tasks)
    text.add(count, {{"queue", key.first}, {"state", std::string(to_word(key.second))}});
  text.metric("rung_overdue_tasks", kGauge, "Scheduled tasks that are overdue, all instances.").add(overdue);
  text.metric(
      "rung_oldest_overdue_seconds", kGauge,
      "How long the scheduled task that is due longest has been due, by queue, all instances; 0 = none is. "
      "Without queues that a gate holds back.");
  for (const auto& [queue, age] : oldest) text.add(seconds(age), {{"queue", queue}});
  text.metric(
      "rung_silences_held", kGauge,
      "Deliveries whose silence is held open, by queue, all instances: their queue was not attached, so "
      "silence is no success.");
  by_queue(totals.silences_held);
  text.metric(
      "rung_unread_messages", kGauge,
      "Messages that wait in a queue without a consumer, if deliveries to it await an answer, by queue.");
  by_queue(totals.unread);
  text.metric("rung_causes", kGauge, "Causes of failures by their state of triage; all instances.");
  for (const std::string_view word : kWords<CauseState>) {
    const auto it = totals.causes.by_state.find(*from_word<CauseState>(word));
    text.add(it == totals.causes.by_state.end() ? 0 : it->second, {{"state", std::string(word)}});
  }
  text.metric("rung_causes_worse", kGauge, "Ignored causes that got worse and have not been triaged since.")
      .add(totals.causes.worse);
  text.metric(
      "rung_cause_failures", kGauge,
      "Failures of the last hour of each cause that is new, got worse or has regressed, at most 100 causes; "
      "all instances.");
  for (const CauseRow& cause : totals.failing) text.add(cause.last_hour, labels_of(cause, rules));
  text.metric("rung_nodes", kGauge, "Live instances, by the database.").add(totals.nodes);
  text.metric("rung_shards_unowned", kGauge, "Shards that no live instance owns, of 64.").add(totals.unowned);
  text.metric("rung_tasks_timestamp_seconds", kGauge,
              "When this instance last read rung_tasks and the other figures of all instances.")
      .add(seconds(clock_.wall()));
  const std::lock_guard lock(mutex_);
  totals_ = text.text();
}

std::string Metrics::text(std::optional<Vitals> vitals, int connections, const api::Context::Counts& counts) {
  Text text;
  const std::lock_guard lock(mutex_);
  text.metric("rung_http_requests_total", kCounter, "Requests answered, by route, method and status.");
  for (const auto& [key, count] : requests_) {
    const auto& [route, method] = key.first;
    text.add(count, {{"route", route}, {"method", method}, {"status", std::to_string(key.second)}});
  }
  text.metric("rung_http_request_duration_seconds", kHistogram,
              "Time to answer a request, from its whole body, by route and method.");
  for (const auto& [key, durations] : durations_)
    text.add(durations, {{"route", key.first}, {"method", key.second}});
  text.metric("rung_submitted_tasks_total", kCounter, "Tasks submitted to this instance by HTTP, by result.");
  for (const char* result : {"created", "same", "conflict", "invalid", "failed"}) {
    const auto count = counts.find({"submit", result});
    text.add(count != counts.end() ? count->second : 0, {{"result", result}});
  }
  text.metric("rung_changes_total", kCounter,
              "Changes of single tasks by HTTP at this instance, by action and result.");
  for (const auto& [key, count] : counts) {
    if (key.first != "submit") text.add(count, {{"action", key.first}, {"result", key.second}});
  }
  text.metric("rung_build_info", kGauge,
              "Always 1; the version is a label, and so is the group if the config has groups.");
  Labels build = {{"version", version_}};
  if (!group_.empty()) build.emplace("group", group_);
  text.add(1, build);
  text.metric("rung_http_connections", kGauge, "Open HTTP connections of this instance.").add(connections);
  if (vitals) {
    last_ = std::move(*vitals);
  } else {
    // The loop does not answer: its other figures stay as they were, so that no alert resolves.
    last_.broker_consuming = last_.broker_publishing = last_.database = false;
    if (std::ranges::find(last_.problems, "loop", &HealthProblem::name) == last_.problems.end())
      last_.problems.push_back({"loop", "", EpochMs{}});
  }
  // A resolved problem stays at 0, so that an alert on it resolves.
  for (auto& [name, has] : problems_) has = false;
  for (const HealthProblem& one : last_.problems) problems_[one.name] = true;
  text.metric("rung_problem", kGauge, "1 while this instance has the problem; /readyz says what it is.");
  for (const auto& [name, has] : problems_) text.add(has ? 1 : 0, {{"problem", name}});
  tell(last_, text);
  return totals_ + text.text();
}

}  // namespace rung::http
