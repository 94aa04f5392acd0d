// What stands in the heap and what is left to the database. Every scheduled row of a held shard that is due
// up to horizon() is in the heap, as far as this instance knows; what it doesn't know of, the janitor's sweep
// finds. Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Horizon {
 public:
  struct Settings {
    Ms window{std::chrono::minutes{10}};
    std::size_t max_loaded = 1'000'000;
  };
  // `ready`: what has left the heap and waits to be claimed; it counts too.
  Horizon(StoreJobs& jobs, Shards& shards, DbClock& clock, io::DueHeap& heap, QueueNames& names,
          std::function<std::size_t()> ready, Settings settings);

  // A row was scheduled: into the heap where it is near.
  void schedule(const io::DueItem& item);
  // Shards were taken: what of theirs lies within the horizon.
  void gained(const std::vector<int>& shards);
  // Called each second: loads on where the horizon falls behind.
  void extend();

 private:
  void load(std::vector<int> shards, std::optional<EpochMs> after, EpochMs until);
  void bound();

  StoreJobs& jobs_;
  Shards& shards_;
  DbClock& clock_;
  io::DueHeap& heap_;
  QueueNames& names_;
  const std::function<std::size_t()> ready_;
  const Settings settings_;
  EpochMs horizon_{0};
  int loading_ = 0;
};

}  // namespace rung::bridge
