// A redrive that looks at its own outcome: it sends a few first (the canary), goes on if they succeed, faster
// step by step (the ramp), and ends itself if too many of what it sends fail.
//
//   canary: send N -> wait for the outcome of each -> all succeeded: the others follow. One failed: stop.
//   an outcome is: a reported or presumed success; a failure, a silence that means failure, a return; or with
//   `watch`, so much silence after the message was read: as the queue's silence means. Silence of a queue
//   that is not attached is no success.
//
// All that it knows is in the bulk's row and its tasks' history, so that any process may take it over.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/base/result.h"
#include "src/core/rules/policy.h"
#include "src/store/store.h"

namespace rung::bridge {

// How often to look at the outcomes while the bulk waits for them.
inline constexpr Ms kLookAtOutcomes{1000};

// The rate of its next step, in tasks per second; 0 = no limit. With a ramp: 1/s for 10 s, 2/s for 10 s, 4/s
// ...
double rate_of(const Bulk& bulk);
// The tasks in its next step.
int step_size(const Bulk& bulk);

// Whether to send the next step. `now`: by the database's clock.
Result<BulkVerdict> judge(Store& store, const Bulk& bulk, const RuleBook& rules, EpochMs now);

// The canary's tasks, sorted by what they say.
struct CanaryCounts {
  std::int64_t sent = 0, succeeded = 0, unsent = 0, open = 0;
  std::int64_t unchecked = 0;  // of `open`: silent for long enough; its queue has not been checked since
  std::string unread = {};     // why some of `open` have not been read; "" = they have, as far as is known
};
// What the canary waits for, for people; and that it waits no longer.
std::string waits_for(const Bulk& bulk, const CanaryCounts& canary);
inline constexpr std::string_view kCanaryPassed = "canary succeeded: the others follow";

}  // namespace rung::bridge
