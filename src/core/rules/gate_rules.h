// When tasks of a queue may go out: `gate` of a queue in the config. docs/policies.md describes each gate.
// Thread: values, free of threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/rules/time_window.h"

namespace rung {

// Publishes a second for each value of a header (indexed_value()), over all instances together. Messages
// without a value share one rate.
struct RateBy {
  std::string header;
  double per_second = 0;
  bool operator==(const RateBy&) const = default;
};

// The breaker opens when `open_after` of the last `of_last` outcomes failed. It then waits, and lets `probes`
// messages at a time through; after `close_after` successful ones in a row it closes. After a failed one it
// waits again.
struct BreakerRules {
  int open_after = 20;  // REQUIRES: <= of_last
  int of_last = 100;
  std::vector<std::string> only;  // patterns of the error types that count as failures; empty = all failures
  // For how long it stays open when it opens for the first, second ... time in a row; the last one repeats.
  // REQUIRES: not empty.
  std::vector<Ms> wait{std::chrono::seconds{30}, std::chrono::minutes{2}, std::chrono::minutes{10}};
  int probes = 1;
  Ms probe_timeout{std::chrono::minutes{1}};
  int close_after = 3;
  bool operator==(const BreakerRules&) const = default;
};

// What a consumer's retry-after means.
struct RetryAfterRules {
  std::optional<Ms> cap;      // the longest that is accepted; none = the ladder's highest delay
  bool pauses_queue = false;  // it holds back the whole queue, not only the message
  Ms longest_hold{std::chrono::minutes{10}};  // the longest that it does; the message may wait longer
  bool operator==(const RetryAfterRules&) const = default;
};

struct GateRules {
  double rate = 0;  // publishes a second to this queue, over all instances together; 0 = no limit
  std::optional<RateBy> rate_by;
  std::shared_ptr<const TimeWindow> window;  // nullptr = always open
  std::optional<BreakerRules> breaker;
  RetryAfterRules retry_after;

  // Publishing needs a token (TokenBucket).
  bool limits() const { return rate > 0 || rate_by; }
  bool operator==(const GateRules& other) const;
};

// "200/s", "30/m" or "1/h".
std::string format_rate(double per_second);
// Its rates: "rate 200/s, rate 5/s for each tenant".
std::string describe_limits(const GateRules& gate);

}  // namespace rung
