// Rows of the table of jobs (jobs.h), so that every task is eventually moved by some instance:
//   twice a second  the poll: one statement asks which kinds of work wait in the tables (WorkWaiting). What
//                   has nothing to do asks nothing by itself: an idle sidecar costs the database little
//                   DueSweep: rows that are due and not tracked -> dispatch
//                   ParkedCopies: copies owed to <prefix>.parked
//   each second     SilenceCheck: expired silence -> presumed success, or the next level
//   (these three if the poll has found that rows wait)
//   at a takeover and every ten seconds  StrandedTasks: tasks left in `publishing` -> the same attempt
//   again; queues of what awaits an answer -> attachments
// Thread: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "src/bridge/flight/due.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/upkeep/parked_copies.h"
#include "src/bridge/upkeep/silence_check.h"

namespace rung::bridge {

class Janitor {
 public:
  // `found`: by the poll, for what else waits.
  Janitor(const Sidecar& sidecar, std::function<void(const WorkWaiting&)> found);

  void start() { started_ = true; }
  void stop();
  // Shards were gained: looks for their stranded rows once the former owner's connection must be dead.
  // Looks also for the queues of what awaits an answer.
  void gained(const std::vector<Gained>& gained) {
    stranded_.gained(gained);
    sidecar_.table.run(find_queues_);
  }
  const SilenceCheck& silence() const { return silence_; }

 private:
  void add(const char* name, Ms period, Jobs::Who who, std::function<void()> act);
  void tidy();
  void look();
  void poll();
  void found(const WorkWaiting& waiting);

  const Sidecar& sidecar_;
  const std::function<void(const WorkWaiting&)> found_;
  DueSweep sweep_;
  SilenceCheck silence_;
  ParkedCopies copies_;
  StrandedTasks stranded_;
  bool started_ = false;
  const Jobs::Id check_silence_, find_queues_;
  std::array<bool, 3> busy_{};  // polls by lane: one that is stuck does not stop the others
  std::size_t turn_ = 0;
  // The last poll found no work. With work, the flow's lane is busy and would delay the poll.
  bool quiet_ = true;
};

}  // namespace rung::bridge
