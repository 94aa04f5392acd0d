// Finds tasks in `publishing` that nobody publishes, and hands them to dispatch, under the same attempt:
// those that the former owner of a shard left, once its connection to the broker must be dead; and, should
// there ever be any, claims of our own that got lost. Thread: the loop's.
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
  // Shards were taken.
  void gained(const std::vector<Gained>& gained);
  // Call each second: looks into the shards whose time has come.
  void look();
  // Call now and then: looks for claims of our own.
  void look_for_forgotten();

 private:
  void found(const std::vector<Lease>& leases, const Result<std::vector<DueEntry>>& rows);

  const Deps deps_;
  std::vector<Gained> waiting_;  // shards to be looked into
};

}  // namespace rung::bridge
