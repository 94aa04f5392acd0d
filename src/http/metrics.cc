#include "src/http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>

namespace rung::http {
namespace {

constexpr Ms kFresh{std::chrono::seconds{15}};

// From a submit that shares a commit to one that waits out a slow database.
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
      prometheus::BuildHistogram()
          .Name("rung_http_request_duration_seconds")
          .Help("From the request's body read to its answer made, by route and method.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& submitted = counter(
      "rung_submitted_tasks_total", "Tasks handed in by HTTP to this instance, by what became of them.");
  prometheus::Family<prometheus::Counter>& changes = counter(
      "rung_changes_total", "Changes of single tasks by HTTP at this instance, by action and result.");
  prometheus::Family<prometheus::Gauge>& tasks =
      gauge("rung_tasks", "Tasks in the database by state, all instances. As of some seconds ago.");
  prometheus::Family<prometheus::Gauge>& overdue =
      gauge("rung_overdue_tasks", "Tasks that are scheduled and should have gone out, all instances.");
  prometheus::Family<prometheus::Gauge>& up =
      gauge("rung_up", "1 where this instance reaches the service, by service.");
  prometheus::Family<prometheus::Gauge>& shards =
      gauge("rung_shards_held", "Shards that this instance owns, of 64.");
  prometheus::Family<prometheus::Gauge>& connections =
      gauge("rung_http_connections", "Open HTTP connections of this instance.");
  prometheus::Family<prometheus::Counter>& let_go =
      counter("rung_retention_deleted_total", "What this instance let go of by retention, by what it was.");
  prometheus::Family<prometheus::Gauge>& let_go_at = gauge(
      "rung_retention_last_timestamp_seconds", "When this instance last let go of something; 0 = never.");
  prometheus::Family<prometheus::Gauge>& build = gauge("rung_build_info", "1; the version is a label.");

  prometheus::Family<prometheus::Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
};

Metrics::Metrics(std::string_view version) : families_(std::make_unique<Families>()) {
  families_->build.Add({{"version", std::string(version)}}).Set(1);
  for (const char* result : {"created", "same", "conflict", "invalid", "failed"})
    families_->submitted.Add({{"result", result}});
  families_->let_go_at.Add({}).Set(0);
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
  families_->up.Add({{"service", "broker"}}).Set(vitals.broker_consuming && vitals.broker_publishing ? 1 : 0);
  families_->up.Add({{"service", "database"}}).Set(vitals.database ? 1 : 0);
  families_->shards.Add({}).Set(vitals.shards);
  families_->connections.Add({}).Set(connections);
  const auto& done = vitals.retention;
  const auto total = [&](const char* what, std::int64_t now) {
    auto& counter = families_->let_go.Add({{"what", what}});
    const double more = static_cast<double>(now) - counter.Value();
    if (more > 0) counter.Increment(more);  // a loop that doesn't answer says 0
  };
  const std::lock_guard lock(mutex_);
  total("tasks", done.tasks);
  total("parts", done.parts);
  total("audit", done.audit);
  total("bulks", done.bulks);
  if (done.last) families_->let_go_at.Add({}).Set(static_cast<double>(done.last->ms) / 1000);
}

void Metrics::tasks(const std::vector<QueueStat>& by_queue) {
  double overdue = 0;
  for (const State state : kStates) {
    double tasks = 0;
    for (const QueueStat& stat : by_queue) tasks += stat.state == state ? static_cast<double>(stat.tasks) : 0;
    families_->tasks.Add({{"state", std::string(to_word(state))}}).Set(tasks);
  }
  for (const QueueStat& stat : by_queue) overdue += static_cast<double>(stat.overdue);
  families_->overdue.Add({}).Set(overdue);
}

bool Metrics::wants_tasks() {
  const std::lock_guard lock(mutex_);
  const BootMs now = boot_now();
  if (now < fresh_until_) return false;
  fresh_until_ = now + kFresh;
  return true;
}

void Metrics::tasks_took(Ms took) {
  const std::lock_guard lock(mutex_);
  // A twentieth of the time at most is spent on counting.
  fresh_until_ = boot_now() + std::max(kFresh, took * 20);
}

void Metrics::tasks_failed() {
  const std::lock_guard lock(mutex_);
  fresh_until_ = boot_now();
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace rung::http
