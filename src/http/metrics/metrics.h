// The contents of /metrics, in Prometheus's text format. Each label has few values, all known in advance:
// only queues that the config names or a person paused, no tags, nothing from a message. Thread: any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/context.h"
#include "src/core/base/time.h"
#include "src/store/store.h"

namespace rung::http {

using api::Vitals;

class Metrics {
 public:
  // `group`: "" = the config has none. REQUIRES: `clock` outlives it.
  Metrics(std::string_view version, std::string_view group, const Clock& clock)
      : clock_(clock), version_(version), group_(group) {}

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
  // In Prometheus's text format. `vitals`: none = the loop did not answer; what it said last is told then.
  std::string text(std::optional<Vitals> vitals, int connections, const api::Context::Counts& counts = {});

 private:
  // The upper bounds of the buckets, in seconds: from a submit that shares a commit up to one that waits for
  // a slow database.
  static constexpr double kSeconds[] = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};
  using Route = std::pair<std::string, std::string>;  // and method

  const Clock& clock_;
  const std::string version_, group_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::pair<Route, int>, std::int64_t> requests_;  // by status
  std::map<Route, bridge::Histogram<kSeconds>> durations_;
  std::string totals_;  // as text
  Vitals last_;
  std::map<std::string, bool> problems_;  // those that there have been
};

}  // namespace rung::http
