// Actions on many tasks: takes whichever running bulk has its next step due off the table, does that step,
// and so on until they are through, paused or in other hands: a slow one holds up no other. Each step is one
// transaction that also says how far the bulk has come, so that whoever takes it over (this instance after a
// restart, another after a lease) does nothing twice and leaves nothing out. Thread: the loop's.
#pragma once

#include <map>
#include <string>

#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/task_observer.h"
#include "src/core/policy.h"

namespace rung::bridge {

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
  void start();
  void drain();  // the step under way ends
  bool idle() const { return !busy_; }

 private:
  struct Step;
  void step();
  static Result<Step> perform(Store& store, const std::string& runner, const Fence& fence,
                              const Decider& decide);
  void done(const Result<Step>& step);
  Ms until_next();

  const Deps deps_;
  const Clock& clock_;
  io::Timer timer_;
  std::map<std::int64_t, BootMs> due_;  // of bulks that we took a step of: when the next one is
  bool busy_ = false;
  bool draining_ = false;
};

// So many of one step: at a low rate few, so that a pause takes effect soon. `rate`: tasks a second; 0 = no
// limit.
int bulk_step_size(double rate);

}  // namespace rung::bridge
