// Which due rows are in memory: the heap, and the searches for those that no instance has there.
// Thread: the loop's.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

// Decides which tasks are in the heap and which stay only in the database. Every scheduled row of a held
// shard that is due up to the horizon is in the heap, as far as this instance knows; DueSweep finds the
// others.
class Horizon {
 public:
  // Due tasks go to Dispatch; those that wait there to be claimed count as loaded.
  explicit Horizon(const Sidecar& sidecar);

  // A row was scheduled: adds it to the heap if it is within the horizon.
  void schedule(const io::DueItem& item);
  // Shards were gained: loads their tasks within the horizon.
  void gained(const std::vector<int>& shards);
  // Call each second: rearms the timers if the database's clock stepped.
  void check_clock() { heap_.check_clock(); }
  // Call each second, with shards: loads more where the horizon falls behind.
  void extend();
  // Call each second: takes numbers away from queues of which nothing is in memory.
  void tidy_names();
  // Empties the heap: nothing becomes due any more.
  void clear() { heap_.clear(); }
  std::size_t loaded() const { return heap_.size(); }

 private:
  void load(std::vector<int> shards, std::optional<EpochMs> after, EpochMs until);
  void bound();

  const Sidecar& sidecar_;
  io::DueHeap heap_;
  EpochMs horizon_{0};
  int loading_ = 0;
};

// Finds due rows that this instance does not know of: missed in a crash, moved by another instance, made due
// by a person. Runs again soon after full pages: many rows were due at one instant. Pages
// full of tasks that stand still (their queue is blocked, or its gate is closed) are passed over: it looks at
// what became due recently, and then at the page behind them. The search for what became due recently leaves
// out the closed queues of which it has read most, a few; a longer statement for each closed queue would cost
// all of them time.
class DueSweep {
 public:
  static constexpr Ms kGrace{300};  // rows that have just become due are the heap's

  explicit DueSweep(const Sidecar& sidecar);
  // The poll, twice a second: rows may have been due for kGrace.
  void polled();

 private:
  Jobs::Work sweep();
  void found(const std::vector<DueEntry>& rows, bool recent);
  std::optional<EpochMs> end_of_page(const std::vector<DueEntry>& rows, std::optional<EpochMs> before) const;
  void note_standing(const std::vector<DueEntry>& rows);
  std::vector<std::string> in_the_way() const;

  const Sidecar& sidecar_;
  const Jobs::Id sweep_;                  // also soon, if the last one found more than it took
  bool polled_ = false;                   // since the last one
  bool look_recent_ = false;              // the next sweep reads only rows that became due recently
  std::optional<EpochMs> passed_;         // the next one that does not begins here: all before stand still
  std::optional<EpochMs> recent_passed_;  // the same of those that do
  bool hurry_ = false;                    // tasks of a queue whose gate has opened wait behind passed_
  std::map<std::string, std::size_t> standing_;  // closed queues, and how many tasks the last full pages had
  bool anew_ = false;                            // another one has opened during that pass
};

// Finds tasks in `publishing` that no instance publishes, and passes them to dispatch under the same attempt:
// those left by a shard's former owner, once its connection to the broker must be dead; and lost claims of
// our own, should there ever be any.
class StrandedTasks {
 public:
  explicit StrandedTasks(const Sidecar& sidecar);
  // Shards were gained.
  void gained(const std::vector<Gained>& gained);

 private:
  Jobs::Work write();
  Jobs::Work look();
  void found(const std::vector<Lease>& leases, const std::vector<DueEntry>& rows);
  Jobs::Work look_for_forgotten();
  void forgotten(const std::vector<DueEntry>& rows);

  const Sidecar& sidecar_;
  const Jobs::Id write_, look_;
  std::vector<Gained> waiting_;   // shards to check, when their time has come
  std::vector<Lease> unwritten_;  // those whose former owner's short claims are to be written
};

}  // namespace rung::bridge
