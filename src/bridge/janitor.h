// What is periodic, so that every row has somebody who will move it:
//   twice a second  rows due and not in hand (missed by a crash, moved by another instance, made due by a
//   person)
//                   -> dispatch
//   each second   silence that is over -> presumed success, or the next level
//                 copies owed to <prefix>.parked
//   at a takeover and every ten seconds   what a dead owner left in `publishing` -> the same attempt again
// Thread: the loop's.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "src/bridge/dispatch.h"
#include "src/bridge/horizon.h"
#include "src/bridge/outbox.h"
#include "src/bridge/shards.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"
#include "src/store/store.h"

namespace rung::bridge {

class Janitor {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    DbClock& clock;
    Horizon& horizon;
    Dispatch& dispatch;
    QueueNames& names;
    const DeliveryProof& proof;
    TaskObserver& observer;
    std::function<bool()> can_publish;
    std::string parked_exchange;
  };

  Janitor(io::Loop& loop, Deps deps);
  void start();
  void stop();
  // Shards were taken: their stranded rows are looked for when the former owner's connection must be dead.
  void gained(const std::vector<Gained>& gained);

 private:
  void tick();
  void sweep();
  void sweep_on();
  void deadlines();
  void copies();
  struct Copy {
    Task task;
    StoredMessage stored;
  };
  static Result<std::vector<Copy>> read_copies(Store& store, const std::vector<TaskId>& ids,
                                               std::size_t room);
  void send_copies(const std::vector<TaskId>& ids);
  void send_copy(const Copy& copy);
  void copy_done(const Task& task);
  void stranded();
  void forgotten();

  const Deps deps_;
  io::Timer timer_, sweep_;
  io::Timer sweep_on_;  // the last sweep found more than it took
  std::vector<Gained> to_recover_;
  std::unordered_set<TaskId> ending_;   // silence that is being ended
  std::unordered_set<TaskId> copying_;  // copies sent, and not recorded yet
  std::size_t copy_bytes_ = 0;          // of their bodies
  int ticks_ = 0;
  bool look_recent_ = false;  // the next sweep: at what has become due of late alone
  bool sweeping_ = false;
  bool ending_busy_ = false;
  bool copies_busy_ = false;
};

}  // namespace rung::bridge
