// Finds due rows that this instance does not know of: missed in a crash, moved by another instance, made due
// by a person. Runs twice a second, and again soon after full pages: many rows were due at one instant. Pages
// full of tasks that stand still (their queue is blocked, or its gate is closed) are passed over: it looks at
// what became due recently, and then at the page behind them. The search for what became due recently leaves
// out the closed queues of which it has read most, a few; a longer statement for each closed queue would cost
// all of them time.
// Thread: the loop's.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
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
  std::optional<EpochMs> end_of_page(const std::vector<DueEntry>& rows, std::optional<EpochMs> before) const;
  void note_standing(const std::vector<DueEntry>& rows);
  std::vector<std::string> in_the_way() const;

  const Deps deps_;
  io::Timer timer_;
  io::Timer soon_;                        // the last sweep found more than it took
  bool look_recent_ = false;              // the next sweep reads only rows that became due recently
  std::optional<EpochMs> passed_;         // the next one that does not begins here: all before stand still
  std::optional<EpochMs> recent_passed_;  // the same of those that do
  bool hurry_ = false;                    // tasks of a queue whose gate has opened wait behind passed_
  std::map<std::string, std::size_t> standing_;  // closed queues, and how many tasks the last full pages had
  bool anew_ = false;                            // another one has opened during that pass
  bool busy_ = false;
};

}  // namespace rung::bridge
