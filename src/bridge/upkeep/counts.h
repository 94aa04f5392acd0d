// Adds what this instance has counted of promises of lateness and of activity (FlowCounts) to the database,
// every few seconds and for all queues together. A process that dies takes with it what it has not added.
// The leader deletes what nothing needs any more (Store::forget). Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/leases/jobs.h"
#include "src/core/base/clock.h"
#include "src/core/base/time.h"
#include "src/store/counts.h"
#include "src/store/system.h"

namespace rung::bridge {

class CountUpkeep {
 public:
  static constexpr Ms kEvery{5000};

  CountUpkeep(Jobs& jobs, const DbClock& clock, const FlowCounts& counts, const NodeIdentity& identity);
  // Adds what there is. Before the end of the process, too: StoreThreads does what is submitted before it is
  // stopped.
  void add() { jobs_.run(add_); }

 private:
  struct Told {
    PromiseCounts promised;
    ActivityCounts activity;
  };
  Jobs::Work next();
  void fill();
  void added();
  Jobs::Work forget();

  Jobs& jobs_;
  const DbClock& clock_;
  const FlowCounts& counts_;
  const NodeIdentity& identity_;
  const Jobs::Id add_, forget_;
  std::map<std::string, Told> told_;  // what the database has of FlowCounts, by its label
  std::int64_t batches_ = 0;
  std::shared_ptr<const CountBatch> pending_;  // not known to be in the database
};

// Upkeep of causes (src/store/causes.h): each second the leader adds the changes of their counts to
// rung_causes. Every instance reads the causes that the others have found. Returns the job to want() when
// there are changes of counts to add. Thread: the loop's.
Jobs::Id add_cause_jobs(Jobs& jobs);

}  // namespace rung::bridge
