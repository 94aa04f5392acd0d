// The contents of /metrics, with prometheus-cpp's core. Each label has few values, all known in advance: only
// queues that the config names or a person paused, no tags, nothing from a message. Thread: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/context.h"
#include "src/core/base/clock.h"
#include "src/store/store.h"

namespace prometheus {
struct MetricFamily;
}

namespace rung::http {

using api::Vitals;

class Metrics {
 public:
  // `group`: "" = the config has none. REQUIRES: `clock` outlives it.
  Metrics(std::string_view version, std::string_view group, const Clock& clock);
  ~Metrics();

  // `seconds`: below 0 if the request was refused before any work.
  void request(std::string_view route, std::string_view method, int status, double seconds);

  // What the database says of all instances: set now and then.
  struct Totals {
    std::vector<QueueStat> by_queue;
    std::vector<std::string> held_back;  // queues behind a gate: their tasks are late by intent
    // The labels of queues that are counted with others, by pattern: bridge::matched_label().
    std::map<std::string, std::string> labels = {};
    std::map<std::string, std::int64_t> silences_held, unread;  // by queue
    CauseTotals causes;
    std::vector<CauseRow> failing;  // causes that nobody has triaged and that failed in the last hour
    std::size_t nodes = 0;          // live
    std::size_t unowned = 0;        // shards
    EpochMs now;                    // its time
  };
  // `queues`: those in the config, which have their own label; all others are "(other)". `rules`: the
  // config's `causes`; nullptr: it has none.
  void totals(const Totals& totals, const std::vector<std::string>& queues,
              const CauseRules* rules = nullptr);
  // Whether the database figures are too old; the caller then fetches them (one caller at a time). The slower
  // the query, the longer its figures stay valid.
  bool wants_tasks();
  void tasks_took(Ms took);
  void tasks_failed();  // the next caller tries again

  // In Prometheus's text format. `vitals`: none = the loop did not answer; what it said last is told then.
  std::string text(std::optional<Vitals> vitals, int connections, const api::Context::Counts& counts = {});

 private:
  struct Counts;
  const Clock& clock_;
  const std::unique_ptr<Counts> counts_;
  std::unique_ptr<const prometheus::MetricFamily> build_;
  std::mutex mutex_;
  BootMs fresh_until_{0};                         // guarded by mutex_
  std::vector<prometheus::MetricFamily> totals_;  // guarded by mutex_
  Vitals last_;                                   // guarded by mutex_
  std::map<std::string, bool> problems_;          // those that there have been; guarded by mutex_
};

// Adds what the event loop of this instance says.
void add_instance(const Vitals& vitals, std::vector<prometheus::MetricFamily>& all);

}  // namespace rung::http
