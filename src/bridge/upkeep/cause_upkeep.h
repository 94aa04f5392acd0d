// Upkeep of causes (src/store/causes.h), each second: the owner of shard 0 adds the changes of their counts
// to rung_causes, and deletes causes that nobody needs. Every instance reads the causes that the others have
// found. Thread: the loop's. Its writes: one job at a time, on the lane upkeep: the flow never waits for it.
#pragma once

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/db_clock.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"
#include "src/store/store.h"

namespace rung::bridge {

class CauseUpkeep {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    DbClock& clock;
  };

  CauseUpkeep(io::Loop& loop, Deps deps);
  void start();
  void stop() { timer_.stop(); }
  // There are changes of counts to add.
  void found_changes() { changes_ = true; }

 private:
  void tick();
  void read();
  void arrived(const Result<CausesFolded>& folded);

  const Deps deps_;
  io::Timer timer_;
  bool changes_ = false;              // for the next tick
  bool busy_ = false;                 // a job is under way
  BootMs read_at_{0}, forget_at_{0};  // the next time; 0 = with the next tick
};

}  // namespace rung::bridge
