// What stands in the heap and what is left to the database. Every scheduled row of a held shard that is due
// up to horizon() is in the heap, as far as this instance knows; what it doesn't know of, the janitor's sweep
// finds. Thread: the loop's.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Dispatch;

class Horizon {
 public:
  struct Settings {
    Ms window{std::chrono::minutes{10}};
    std::size_t max_loaded = 1'000'000;
  };
  // What is due goes to `dispatch`; what waits there to be claimed counts as loaded.
  Horizon(io::Loop& loop, StoreJobs& jobs, Shards& shards, DbClock& clock, QueueNames& names,
          Dispatch& dispatch, Settings settings);

  // A row was scheduled: into the heap where it is near.
  void schedule(const io::DueItem& item);
  // Shards were taken: what of theirs lies within the horizon.
  void gained(const std::vector<int>& shards);
  // Called each second: where the database's clock stepped, the timers are armed anew.
  void check_clock() { heap_.check_clock(); }
  // Called each second, with shards: loads on where the horizon falls behind.
  void extend();
  // Nothing becomes due any more.
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
