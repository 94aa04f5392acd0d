// Runs bulk actions: picks from the table any running bulk whose next step is due and performs that step,
// until all are completed, paused or taken by other instances. A slow bulk does not delay the others. Each
// step is one transaction that also records the bulk's progress, so that its next runner (this instance after
// a restart, another after a lease) repeats nothing and skips nothing. Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/leases/jobs.h"

namespace rung::bridge {

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

// How often to look at the outcomes while the bulk waits for them.
inline constexpr Ms kLookAtOutcomes{1000};

// The rate of its next step, in tasks per second; 0 = no limit. With a ramp: 1/s for 10 s, 2/s for 10 s, 4/s
// ...
double rate_of(const Bulk& bulk);
// The tasks in its next step: few at a low rate, so that a pause takes effect soon.
int step_size(const Bulk& bulk);

// Whether to send the next step. `now`: by the database's clock.
BulkVerdict judge(Store& store, const Bulk& bulk, const RuleBook& rules, EpochMs now);

// One step of a bulk that `runner` has taken: what it did.
struct BulkProgress {
  BulkVerdict verdict;              // wait, stop: nothing was sent
  std::vector<Decision> decisions;  // none, and verdict on: the bulk is complete
};
// The step of `bulk` in transactions of its own. If it fails for good, the bulk is stopped, with the error.
// kNotItsRunner: it is not the runner's any more.
BulkProgress perform_step(Store& store, const Bulk& bulk, const std::string& runner, const Fence& fence,
                          const RuleBookPtr& rules);

class BulkRunner {
 public:
  explicit BulkRunner(const Sidecar& sidecar);
  // A step of some bulk is due, perhaps of another instance's.
  void found() { sidecar_.table.run(step_); }

 private:
  Jobs::Work step();
  void note(const Bulk& bulk, const BulkProgress& progress);
  void go_on();

  const Sidecar& sidecar_;
  const std::string runner_;  // our name in the table
  const Jobs::Id step_;
  std::map<std::int64_t, BootMs> due_;  // when the next step is due, of bulks that we have worked on
};

}  // namespace rung::bridge
