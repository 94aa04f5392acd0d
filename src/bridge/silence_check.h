// Ends attempts that have waited too long for a consumer's report: presumed success, or the next level, as
// the queue's rules say. Thread: the loop's.
#pragma once

#include <unordered_set>

#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/task_observer.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"

namespace rung::bridge {

class SilenceCheck {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    DbClock& clock;
    TaskObserver& observer;
  };

  explicit SilenceCheck(Deps deps) : deps_(deps) {}
  // Call each second, with shards.
  void check();

 private:
  const Deps deps_;
  std::unordered_set<TaskId> ending_;
  bool busy_ = false;
};

}  // namespace rung::bridge
