#include "src/http/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>

#include "src/core/base/utf8.h"
#include "src/core/causes/fingerprint.h"
#include "src/http/metrics/metric_families.h"

namespace rung::http {
namespace {

constexpr Ms kFresh{std::chrono::seconds{15}};

// From a submit that shares a commit up to one that waits for a slow database.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,   0.25,  0.5,   1,    2.5,   10};

constexpr std::array<State, 7> kStates{State::scheduled, State::publishing, State::awaiting, State::succeeded,
                                       State::parked,    State::cancelled,  State::discarded};

// Its error without what varies, which may be personal.
prometheus::Labels labels_of(const CauseRow& cause, const CauseRules* rules) {
  constexpr std::size_t kNameBytes = 120;
  const std::string text = cause_text(cause.sample, rules);
  return {{"queue", cause.queue},
          {"cause", cause.id},
          {"error", clean_utf8(cause.error_type.empty() ? text : cause.error_type + ": " + text, kNameBytes)},
          {"state", std::string(cause.worse_at ? "worse" : to_word(cause.state))}};
}

}  // namespace

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

void Metrics::totals(const Totals& totals, const std::vector<std::string>& queues, const CauseRules* rules) {
  constexpr const char* kOther = bridge::FlowCounts::kOther;
  double overdue = 0;
  std::map<prometheus::Labels, double> tasks, ages;
  std::map<std::string, Ms> oldest;
  const auto of = [](const std::string& queue, State state) {
    return prometheus::Labels{{"queue", queue}, {"state", std::string(to_word(state))}};
  };
  for (const State state : kStates) {
    tasks[of(kOther, state)] = 0;
    for (const std::string& queue : queues) tasks[of(queue, state)] = 0;
  }
  oldest[kOther] = Ms{0};
  for (const std::string& queue : queues) oldest[queue] = Ms{0};
  for (const QueueStat& stat : totals.by_queue) {
    const auto shared = totals.labels.find(stat.queue);
    const std::string& label = shared != totals.labels.end() ? shared->second : stat.queue;
    const std::string queue = oldest.contains(label) ? label : kOther;
    tasks[of(queue, stat.state)] += static_cast<double>(stat.tasks);
    overdue += static_cast<double>(stat.overdue);
    const bool held = std::ranges::find(totals.held_back, stat.queue) != totals.held_back.end();
    if (stat.oldest_due_at && !held)
      oldest[queue] = std::max(oldest[queue], totals.now - *stat.oldest_due_at);
  }
  for (const auto& [queue, age] : oldest) ages[{{"queue", queue}}] = static_cast<double>(age.count()) / 1000;
  const auto by_queue = [&](const std::map<std::string, std::int64_t>& counts) {
    std::map<prometheus::Labels, double> out;
    for (const auto& [queue, age] : oldest) out[{{"queue", queue}}] = 0;
    for (const auto& [queue, count] : counts)
      out[{{"queue", oldest.contains(queue) ? queue : kOther}}] += static_cast<double>(count);
    return out;
  };
  const std::lock_guard lock(mutex_);
  families_->tasks.set(tasks);
  families_->silences_held.set(by_queue(totals.silences_held));
  families_->unread.set(by_queue(totals.unread));
  families_->oldest_overdue.set(ages);
  for (std::size_t i = 0; i < kCauseWords.size(); ++i) {
    const auto it = totals.causes.by_state.find(static_cast<CauseState>(i + 1));
    const auto count = it == totals.causes.by_state.end() ? 0 : it->second;
    families_->causes.Add({{"state", std::string(kCauseWords[i])}}).Set(static_cast<double>(count));
  }
  std::map<prometheus::Labels, double> failures;
  for (const CauseRow& cause : totals.failing)
    failures[labels_of(cause, rules)] = static_cast<double>(cause.last_hour);
  families_->cause_failures.set(failures);
  families_->causes_worse.Add({}).Set(static_cast<double>(totals.causes.worse));
  families_->overdue.Add({}).Set(overdue);
  families_->nodes.Add({}).Set(static_cast<double>(totals.nodes));
  families_->unowned.Add({}).Set(static_cast<double>(totals.unowned));
  families_->counted_at.Add({}).Set(static_cast<double>(clock_.wall().ms) / 1000);
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
