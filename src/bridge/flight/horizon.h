// Decides which tasks are in the heap and which stay only in the database. Every scheduled row of a held
// shard that is due up to the horizon is in the heap, as far as this instance knows; the janitor's sweep
// finds the others. Thread: the loop's.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/bridge/base/queue_names.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/clock.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Dispatch;

class Horizon {
 public:
  struct Settings {
    Ms window{std::chrono::minutes{10}};
    std::size_t max_loaded = 1'000'000;
  };
  // Due tasks go to `dispatch`; those that wait there to be claimed count as loaded.
  Horizon(io::Loop& loop, StoreJobs& jobs, Shards& shards, DbClock& clock, QueueNames& names,
          Dispatch& dispatch, Settings settings);

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

  StoreJobs& jobs_;
  Shards& shards_;
  DbClock& clock_;
  QueueNames& names_;
  Dispatch& dispatch_;
  const Settings settings_;
  io::DueHeap heap_;
  EpochMs horizon_{0};
  int loading_ = 0;
};

}  // namespace rung::bridge
