// Finds due rows that this instance does not know of: missed in a crash, moved by another instance, made due
// by a person. Runs twice a second, and again soon after full pages: many rows were due at one instant. Pages
// full of tasks that stand still (their queue is blocked, or its gate is closed) are passed over: it looks at
// what became due recently, and then at the page behind them.
// Thread: the loop's.
#pragma once

#include <optional>
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
    const Gates& gates;
    QueueNames& names;
  };

  DueSweep(io::Loop& loop, Deps deps);
  void start();
  void stop();

 private:
  void sweep();
  void sweep_on();
  void found(const std::vector<DueEntry>& rows, bool recent);
  std::optional<EpochMs> end_of_page(const std::vector<DueEntry>& rows) const;

  const Deps deps_;
  io::Timer timer_;
  io::Timer soon_;                 // the last sweep found more than it took
  bool look_recent_ = false;       // the next sweep reads only rows that became due recently
  std::optional<EpochMs> passed_;  // the next one that does not begins here: all before stand still
  bool busy_ = false;
};

}  // namespace rung::bridge
