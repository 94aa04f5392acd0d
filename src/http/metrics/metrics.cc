#include "src/http/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/core/causes/fingerprint.h"
#include "src/http/metrics/samples.h"

namespace rung::http {
namespace {

constexpr Ms kFresh{std::chrono::seconds{15}};

// From a submit that shares a commit up to one that waits for a slow database.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,   0.25,  0.5,   1,    2.5,   10};

constexpr std::array<State, 7> kStates{State::scheduled, State::publishing, State::awaiting, State::succeeded,
                                       State::parked,    State::cancelled,  State::discarded};

// Its error without what varies, which may be personal.
Labels labels_of(const CauseRow& cause, const CauseRules* rules) {
  constexpr std::size_t kNameBytes = 120;
  const std::string text = cause_text(cause.sample, rules);
  return {{"queue", cause.queue},
          {"cause", cause.id},
          {"error", clean_utf8(cause.error_type.empty() ? text : cause.error_type + ": " + text, kNameBytes)},
          {"state", std::string(cause.worse_at ? "worse" : to_word(cause.state))}};
}

constexpr std::array<const char*, 5> kSubmitted{"created", "same", "conflict", "invalid", "failed"};

}  // namespace

// What is counted here, request by request.
struct Metrics::Counts {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      counter("rung_http_requests_total", "Requests answered, by route, method and status.");
  prometheus::Family<prometheus::Histogram>& seconds =
      histogram("rung_http_request_duration_seconds",
                "Time to answer a request, from its whole body, by route and method.");
  prometheus::Family<prometheus::Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
};

prometheus::ClientMetric& Samples::with(const Labels& labels) {
  prometheus::ClientMetric& sample = family_.metric.emplace_back();
  for (const auto& [name, value] : labels) sample.label.push_back({name, value});
  return sample;
}

void Samples::add(const bridge::Lateness& late, const Labels& labels) {
  auto& histogram = with(labels).histogram;
  for (std::size_t i = 0; i < late.counts.size(); ++i) {
    histogram.sample_count += static_cast<std::uint64_t>(late.counts[i]);
    const bool last = i == late.kSeconds.size();
    histogram.bucket.push_back(
        {histogram.sample_count, last ? std::numeric_limits<double>::infinity() : late.kSeconds[i]});
  }
  histogram.sample_sum = late.sum;
}

Metrics::Metrics(std::string_view version, std::string_view group, const Clock& clock)
    : clock_(clock), counts_(std::make_unique<Counts>()) {
  Labels labels = {{"version", std::string(version)}};
  if (!group.empty()) labels.emplace("group", group);
  Samples build("rung_build_info", kGauge,
                "Always 1; the version is a label, and so is the group if the config has groups.");
  build.add(1, labels);
  build_ = std::make_unique<prometheus::MetricFamily>(build.family());
}

Metrics::~Metrics() = default;

void Metrics::request(std::string_view route, std::string_view method, int status, double seconds) {
  const Labels labels = {{"route", std::string(route)}, {"method", std::string(method)}};
  Labels with_status = labels;
  with_status.emplace("status", std::to_string(status));
  counts_->requests.Add(with_status).Increment();
  if (seconds >= 0) counts_->seconds.Add(labels, kSeconds).Observe(seconds);
}

void Metrics::totals(const Totals& totals, const std::vector<std::string>& queues, const CauseRules* rules) {
  constexpr const char* kOther = bridge::FlowCounts::kOther;
  std::int64_t overdue = 0;
  std::map<std::pair<std::string, State>, std::int64_t> tasks;
  std::map<std::string, Ms> oldest{{kOther, Ms{0}}};
  for (const std::string& queue : queues) oldest[queue] = Ms{0};
  for (const auto& [queue, age] : oldest)
    for (const State state : kStates) tasks[{queue, state}] = 0;
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
  std::vector<prometheus::MetricFamily> all;
  const auto add = [&](const char* name, MetricType type, const char* help, const auto& tell) {
    Samples samples(name, type, help);
    tell(samples);
    all.push_back(samples.family());
  };
  const auto add_one = [&](const char* name, MetricType type, const char* help, auto value) {
    add(name, type, help, [&](Samples& s) { s.add(value); });
  };
  const auto by_queue = [&](const std::map<std::string, std::int64_t>& counts) {
    return [&](Samples& s) {
      std::map<std::string, std::int64_t> out;
      for (const auto& [queue, age] : oldest) out[queue] = 0;
      for (const auto& [queue, count] : counts) out[oldest.contains(queue) ? queue : kOther] += count;
      for (const auto& [queue, count] : out) s.add(count, {{"queue", queue}});
    };
  };
  add("rung_tasks", kGauge,
      "Tasks in the database by queue and state, all instances. As of some seconds ago. Queues that the "
      "config "
      "does not name are together in queue=\"(other)\".",
      [&](Samples& s) {
        for (const auto& [key, count] : tasks)
          s.add(count, {{"queue", key.first}, {"state", std::string(to_word(key.second))}});
      });
  add_one("rung_overdue_tasks", kGauge, "Scheduled tasks that are overdue, all instances.", overdue);
  add("rung_oldest_overdue_seconds", kGauge,
      "How long the scheduled task that is due longest has been due, by queue, all instances; 0 = none is. "
      "Without queues that a gate holds back.",
      [&](Samples& s) {
        for (const auto& [queue, age] : oldest)
          s.add(static_cast<double>(age.count()) / 1000, {{"queue", queue}});
      });
  add("rung_silences_held", kGauge,
      "Deliveries whose silence is held open, by queue, all instances: their queue was not attached, so "
      "silence "
      "is no success.",
      by_queue(totals.silences_held));
  add("rung_unread_messages", kGauge,
      "Messages that wait in a queue without a consumer, if deliveries to it await an answer, by queue.",
      by_queue(totals.unread));
  add("rung_causes", kGauge, "Causes of failures by their state of triage; all instances.", [&](Samples& s) {
    for (std::size_t i = 0; i < kCauseWords.size(); ++i) {
      const auto it = totals.causes.by_state.find(static_cast<CauseState>(i + 1));
      s.add(it == totals.causes.by_state.end() ? 0 : it->second, {{"state", std::string(kCauseWords[i])}});
    }
  });
  add_one("rung_causes_worse", kGauge, "Ignored causes that got worse and have not been triaged since.",
          totals.causes.worse);
  add("rung_cause_failures", kGauge,
      "Failures of the last hour of each cause that is new, got worse or has regressed, at most 100 causes; "
      "all "
      "instances.",
      [&](Samples& s) {
        for (const CauseRow& cause : totals.failing) s.add(cause.last_hour, labels_of(cause, rules));
      });
  add_one("rung_nodes", kGauge, "Live instances, by the database.", totals.nodes);
  add_one("rung_shards_unowned", kGauge, "Shards that no live instance owns, of 64.", totals.unowned);
  add_one("rung_tasks_timestamp_seconds", kGauge,
          "When this instance last read rung_tasks and the other figures of all instances.",
          static_cast<double>(clock_.wall().ms) / 1000);
  const std::lock_guard lock(mutex_);
  totals_ = std::move(all);
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

std::string Metrics::text(std::optional<Vitals> vitals, int connections, const api::Context::Counts& counts) {
  std::vector<prometheus::MetricFamily> all = counts_->registry.Collect();
  all.push_back(*build_);
  Samples open("rung_http_connections", kGauge, "Open HTTP connections of this instance.");
  open.add(connections);
  all.push_back(open.family());
  Samples submitted("rung_submitted_tasks_total", kCounter,
                    "Tasks submitted to this instance by HTTP, by result.");
  for (const char* result : kSubmitted) {
    const auto count = counts.find({"submit", result});
    submitted.add(count != counts.end() ? count->second : 0, {{"result", result}});
  }
  Samples changes("rung_changes_total", kCounter,
                  "Changes of single tasks by HTTP at this instance, by action and result.");
  for (const auto& [key, count] : counts) {
    if (key.first != "submit") changes.add(count, {{"action", key.first}, {"result", key.second}});
  }
  all.push_back(submitted.family());
  all.push_back(changes.family());
  const std::lock_guard lock(mutex_);
  all.insert(all.end(), totals_.begin(), totals_.end());
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
  Samples problems("rung_problem", kGauge, "1 while this instance has the problem; /readyz says what it is.");
  for (const auto& [name, has] : problems_) problems.add(has ? 1 : 0, {{"problem", name}});
  all.push_back(problems.family());
  add_instance(last_, all);
  std::erase_if(all, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace rung::http
