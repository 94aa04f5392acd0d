// Finds due rows that this instance does not know of: missed in a crash, moved by another instance, made due
// by a person. Runs twice a second, and again soon after full pages: many rows were due at one instant.
// Thread: the loop's.
#pragma once

#include <vector>

#include "src/bridge/dispatch.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/io/loop.h"

namespace rung::bridge {

class DueSweep {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    DbClock& clock;
    Dispatch& dispatch;
    QueueNames& names;
  };

  DueSweep(io::Loop& loop, Deps deps);
  void start();
  void stop();

 private:
  void sweep();
  void sweep_on();
  void found(const std::vector<DueEntry>& rows);

  const Deps deps_;
  io::Timer timer_;
  io::Timer soon_;            // the last sweep found more than it took
  bool look_recent_ = false;  // the next sweep reads only rows that became due recently
  bool busy_ = false;
};

}  // namespace rung::bridge
