// Runs bulk actions: picks from the table any running bulk whose next step is due and performs that step,
// until all are completed, paused or taken by other instances. A slow bulk does not delay the others. Each
// step is one transaction that also records the bulk's progress, so that its next runner (this instance after
// a restart, another after a lease) repeats nothing and skips nothing. Thread: the loop's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/rules/policy.h"
#include "src/store/store.h"

namespace rung::bridge {

// One step of a bulk that `runner` has taken: what it did.
struct BulkProgress {
  BulkVerdict verdict;              // wait, stop: nothing was sent
  std::vector<Decision> decisions;  // none, and verdict on: the bulk is complete
};
// The step of `bulk` in transactions of its own. If it fails for good, the bulk is stopped, with the error.
// kNotItsRunner: it is not the runner's any more.
Result<BulkProgress> perform_step(Store& store, const Bulk& bulk, const std::string& runner,
                                  const Fence& fence, const RuleBookPtr& rules);

class BulkRunner {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    const RuleBookPtr& rules;  // replaced by a reload
    TaskObserver& observer;
    std::string runner;  // our name in the table
  };

  BulkRunner(io::Loop& loop, Deps deps);
  // A step of some bulk is due, perhaps of another instance's.
  void found();
  void drain();  // the step under way completes
  bool idle() const { return !busy_; }

 private:
  struct Step;
  void step();
  static Result<Step> perform(Store& store, const std::string& runner, const Fence& fence,
                              const RuleBookPtr& rules);
  void done(const Result<Step>& step);
  void note(const Bulk& bulk, const BulkProgress& progress);
  std::optional<Ms> until_next();

  const Deps deps_;
  const Clock& clock_;
  io::Timer timer_;
  std::map<std::int64_t, BootMs> due_;  // when the next step is due, of bulks that we have worked on
  bool busy_ = false;
  bool draining_ = false;
};

// Tasks in one step: few at a low rate, so that a pause takes effect soon. `rate`: tasks per second; 0 = no
// limit.
int bulk_step_size(double rate);

}  // namespace rung::bridge
