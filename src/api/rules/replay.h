// Replays failures against a config, in virtual time: what would have happened. Every step is decided by
// decide() and by the gates, as in the sidecar; there is no second model. What it assumes of the consumers:
// a delivery fails if the message was not yet seen to work at that time, with the error that it had then.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/api/rules/failure_log.h"
#include "src/core/rules/policy.h"

namespace rung::api {

struct ReplayOptions {
  std::string queue;
  std::uint64_t seed = 1;        // of the ladders' jitter
  std::optional<EpochMs> until;  // the replay ends here; none: kReplayed after the last recorded failure
  std::int64_t most_deliveries = 50'000'000;
};
inline constexpr Ms kReplayed = std::chrono::hours{24 * 30};

// A task is held back if it goes out this late.
inline constexpr Ms kHeldBack{1000};

// What became of the messages: replayed, or read from the history.
struct ReplayTotals {
  std::int64_t messages = 0;
  std::int64_t succeeded = 0, parked = 0, discarded = 0, cancelled = 0;
  std::int64_t given_up = 0;  // of those parked: by give_up
  std::int64_t waiting = 0;   // not finished at the end
  std::int64_t held = 0;      // messages that were held back at least once
  Ms held_total{0}, held_longest{0};
  std::optional<std::int64_t> breaker_opened, probes;  // none: not known
  std::vector<Ms> to_success;                          // from the first failure, sorted
  std::vector<EpochMs> deliveries;                     // when, sorted
  bool cut = false;                                    // it ended at ReplayOptions::most_deliveries
};

ReplayTotals replay(const FailureLog& log, const RuleBook& rules, const ReplayOptions& options);

// Deliveries from `from` on, in buckets of `width`.
std::vector<std::int64_t> load_of(const std::vector<EpochMs>& deliveries, EpochMs from, Ms width,
                                  std::size_t buckets);
// The most deliveries in any `width`, by the clock.
std::int64_t peak_of(const std::vector<EpochMs>& deliveries, Ms width);

}  // namespace rung::api
