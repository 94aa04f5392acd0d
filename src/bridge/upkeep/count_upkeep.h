// Adds what this instance has counted of promises of lateness and of activity (FlowCounts) to the database,
// every few seconds and for all queues together. A process that dies takes with it what it has not added.
// Where shard 0 is held, old buckets are deleted. Thread: the loop's. One job at a time, on the lane upkeep:
// the flow never waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/db_clock.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"
#include "src/store/counts.h"
#include "src/store/leases.h"

namespace rung::bridge {

class CountUpkeep {
 public:
  static constexpr Ms kEvery{5000};
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    const DbClock& clock;
    const FlowCounts& counts;
    const NodeIdentity& identity;
  };

  CountUpkeep(io::Loop& loop, Deps deps);
  void start() { timer_.start(kEvery, kEvery); }
  void stop() { timer_.stop(); }
  // Adds what there is; after the job that is under way, if one is. Before the end of the process, too:
  // StoreThreads does what is submitted before it is stopped.
  void add();

 private:
  struct Told {
    PromiseCounts promised;
    ActivityCounts activity;
  };
  std::shared_ptr<const CountBatch> next();
  void added(const Result<void>& done);
  void forget();

  const Deps deps_;
  io::Timer timer_;
  std::map<std::string, Told> told_;  // what the database has of FlowCounts, by its label
  std::int64_t batches_ = 0;
  std::shared_ptr<const CountBatch> pending_;  // not known to be in the database
  bool busy_ = false;                          // a job is under way
  bool again_ = false;                         // add() was called meanwhile
  BootMs forget_at_{0};
};

}  // namespace rung::bridge
