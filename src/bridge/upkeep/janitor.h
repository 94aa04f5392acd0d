// The periodic jobs, so that every row is eventually moved by some instance. Each job has its own file:
//   twice a second  due_sweep: rows that are due and not tracked -> dispatch
//   each second     silence_check: expired silence -> presumed success, or the next level
//                   parked_copies: copies owed to <prefix>.parked
//   (these three if work_poll has found that rows wait)
//   at a takeover and every ten seconds  stranded_tasks: tasks left in `publishing` -> the same attempt
//   again; queues of what awaits an answer -> attachments
// Thread: the loop's.
#pragma once

#include <functional>
#include <vector>

#include "src/bridge/flight/due.h"
#include "src/bridge/flight/horizon.h"
#include "src/bridge/upkeep/parked_copies.h"
#include "src/bridge/upkeep/silence_check.h"

namespace rung::bridge {

class Janitor {
 public:
  struct Deps {
    Horizon& horizon;
    std::function<bool()> can_publish;
    DueDeps due;
    SilenceCheck::Deps silence;
    ParkedCopies::Deps copies;
  };
  Janitor(io::Loop& loop, Deps deps);

  void start();
  void stop();
  // Call twice a second.
  void found(const WorkWaiting& waiting);
  // Shards were gained: looks for their stranded rows once the former owner's connection must be dead.
  // Looks also for the queues of what awaits an answer.
  void gained(const std::vector<Gained>& gained) {
    stranded_.gained(gained);
    silence_.find_queues();
  }
  SilenceCheck& silence() { return silence_; }
  const SilenceCheck& silence() const { return silence_; }

 private:
  void tick();

  const Deps deps_;
  DueSweep sweep_;
  SilenceCheck silence_;
  ParkedCopies copies_;
  StrandedTasks stranded_;
  io::Timer timer_;
  int ticks_ = 0;
  bool half_ = false;  // found() is called the second time within this second
};

}  // namespace rung::bridge
