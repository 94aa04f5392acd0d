// Finds tasks in `publishing` that no instance publishes, and passes them to dispatch under the same attempt:
// those left by a shard's former owner, once its connection to the broker must be dead; and lost claims of
// our own, should there ever be any. Thread: the loop's.
#pragma once

#include <vector>

#include "src/bridge/dispatch.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"

namespace rung::bridge {

class StrandedTasks {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    DbClock& clock;
    Dispatch& dispatch;
    QueueNames& names;
  };

  explicit StrandedTasks(Deps deps) : deps_(deps) {}
  // Shards were gained.
  void gained(const std::vector<Gained>& gained);
  // Call each second: checks the shards whose time has come.
  void look();
  // Call now and then: looks for our own lost claims.
  void look_for_forgotten();

 private:
  void found(const std::vector<Lease>& leases, const Result<std::vector<DueEntry>>& rows);

  const Deps deps_;
  std::vector<Gained> waiting_;  // shards to check
};

}  // namespace rung::bridge
