// What has gone through this instance since its start, for /metrics and for CountUpkeep. By queue: those
// that the config names are counted separately, and so are the first kMostMatched that match one of its
// patterns; beyond that by pattern. All others are counted together, so the number of queues is bounded. One
// look-up and an addition for each event. Thread: the loop's; a copy of by_queue() is a value.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugin/broker.h"
#include "src/core/base/time.h"
#include "src/core/machine/machine.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"
#include "src/store/system.h"

namespace rung::bridge {

// A histogram of durations for /metrics. `kSeconds`: the upper bounds of its buckets, in ascending order; one
// more bucket holds what is longer. Thread: a value.
template <const auto& kSeconds>
struct Histogram {
  void add(std::chrono::duration<double> length) {  // below 0: counts as 0
    const double seconds = std::max(length.count(), 0.0);
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(kSeconds, seconds) - std::begin(kSeconds))];
    sum += seconds;
  }
  void operator+=(const Histogram& more) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += more.counts[i];
    sum += more.sum;
  }

  std::array<std::int64_t, std::size(kSeconds) + 1> counts{};  // of each bucket alone
  double sum = 0;                                              // seconds
};

inline constexpr double kLateSeconds[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600};
using Lateness = Histogram<kLateSeconds>;

// By Recognized (src/bridge/intake/intake.h): in the log, in events and in the metrics.
inline constexpr std::array<std::string_view, 5> kRecognizedWords{"duplicate", "repeat", "changed", "child",
                                                                  "elsewhere"};

// What is not counted by queue. Who does it counts it.
struct Totals {
  // As received: repeats and those that change nothing count too.
  struct Results {
    std::int64_t succeeded = 0, failed = 0, malformed = 0;
  };
  // Of a queue's breaker.
  struct Breaker {
    std::int64_t opened = 0, closed = 0;  // seen by this instance
    std::int64_t probes = 0;              // sent by it
  };

  std::array<std::int64_t, 4> received{};  // deliveries, by Inlet; redeliveries included
  Results results;
  std::array<std::int64_t, 5> recognized{};                // by Recognized
  std::int64_t refused_results = 0, refused_failures = 0;  // by DeliveryProof
  std::int64_t refused_publishes = 0;                   // dead letters of publishes that a full queue refused
  std::int64_t without_origin = 0;                      // failures: Intake::note_origin()
  std::int64_t rows_behind = 0;                         // StoreWatch::behind()
  std::map<std::string, std::int64_t> decided_by_rule;  // failures, by Task::rule. Of the config: few
  // By queue. Beyond Gates::kMostTotals those that the config does not name are together in "(other)".
  std::map<std::string, Breaker> breakers;
  std::int64_t silences_held = 0;  // held open
  // Presumed successful without knowing whether the queue was attached.
  std::int64_t silences_unverified = 0;
  std::int64_t shards_gained = 0, shards_lost = 0;  // lost: their leases ended against our will
  std::int64_t topology_repairs = 0;
};

class FlowCounts {
 public:
  static constexpr const char* kOther = kOtherQueues;
  static constexpr std::size_t kMostMatched = 500;
  // How a delivery ended: as Outcome, without `pending`. presumed: silence meant success.
  enum class Ended : std::uint8_t { succeeded, failed, timed_out, returned, presumed };
  static Ended ended_by(Outcome outcome) {
    return static_cast<Ended>(static_cast<int>(outcome) - static_cast<int>(Outcome::succeeded));
  }
  static_assert(static_cast<int>(Outcome::returned) - static_cast<int>(Outcome::succeeded) ==
                static_cast<int>(Ended::returned));

  struct Queue {
    std::array<std::int64_t, 2> taken_in{};   // new tasks: retries, delays
    std::array<std::int64_t, 6> published{};  // by PublishResult::How
    Lateness late;                            // of the confirmed ones, without the time behind gates
    std::array<std::int64_t, 5> ended{};
    std::array<std::int64_t, 4> finished{};  // tasks, by their final State
    std::optional<Ms> late_by;               // by the rules now
    PromiseCounts promised;                  // of the confirmed ones, while there was a promise
    std::int64_t retried = 0;                // of the confirmed ones: not a delay's first delivery

    ActivityCounts activity() const;
    std::int64_t& operator[](PublishResult::How how) { return published[static_cast<std::size_t>(how)]; }
    std::int64_t& operator[](Ended how) { return ended[static_cast<std::size_t>(how)]; }
    std::int64_t& operator[](State reached) {
      static_assert(static_cast<int>(State::discarded) - static_cast<int>(State::succeeded) == 3);
      return finished[static_cast<std::size_t>(reached) - static_cast<std::size_t>(State::succeeded)];
    }
  };
  using ByQueue = std::unordered_map<std::string, Queue>;

  explicit FlowCounts(const RuleBookPtr& rules) { configure(rules); }
  // Queues that the config no longer names keep their counts: counters never go back.
  void configure(const RuleBookPtr& rules);

  void inserted(const Task& task);
  // A queue that matches a pattern exists: its counters begin at 0, so that rates see its first failures.
  void know(const std::string& queue) { of(queue); }
  // REQUIRES: the decision was applied.
  void decided(const Decision& decision);
  // `late`: from its due time to the broker's answer. `behind_gates`: how much of that it waited behind
  // gates.
  void published(const Task& task, PublishResult::How how, Ms late, Ms behind_gates);

  Totals totals;

  // Contains each configured queue and kOther.
  const ByQueue& by_queue() const { return by_queue_; }

 private:
  Queue& of(const std::string& queue);
  std::optional<Ms> late_by(const std::string& label) const;
  void finish(const Task& task);

  RuleBookPtr rules_;
  ByQueue by_queue_;
  std::size_t matched_ = 0;  // entries of by_queue_ for queues that matched a pattern
};

// The label of a queue that is not in RuleBook::queues(): its name if there is `room` for another one that
// matches a pattern, else its pattern; FlowCounts::kOther without a pattern.
std::string matched_label(const RuleBook& rules, const std::string& queue, bool room);

}  // namespace rung::bridge
