// Retention: deletes what is over and old, and keeps the history's tables in partitions that can be dropped.
// Whoever holds shard 0 does it: a lease that is there anyway. Two at once (a takeover while a step is under
// way) do nothing wrong, each step may be done twice.
//
// Passes (retention_pass.h) follow each other; retention_schedule says what each looks at. A step at a time,
// on a thread and a connection of their own, at most a quarter of the time. Thread: the loop's.
#pragma once

#include <optional>

#include "src/bridge/retention_pass.h"
#include "src/bridge/retention_report.h"
#include "src/bridge/retention_schedule.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"

namespace rung::bridge {

class Retention {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    DbClock& clock;
  };

  // `keep`: none = nothing is deleted; partitions are made all the same.
  Retention(io::Loop& loop, Deps deps, std::optional<Ms> keep);
  void start();
  void stop();  // the step under way ends
  void reload(std::optional<Ms> keep);
  // By this instance, since its start.
  const RetentionTotals& totals() const { return report_.totals(); }

 private:
  using Stage = RetentionPass::Stage;

  void tick();
  void submit();
  void arrived(Result<RetentionPass> pass);
  BootMs now() const { return deps_.clock.here().boot(); }

  const Deps deps_;
  std::optional<Ms> keep_;
  io::Timer timer_;
  RetentionPass pass_;
  RetentionSchedule schedule_;
  RetentionReport report_;
  bool ours_ = false;  // we held shard 0 at the last look
  bool busy_ = false;  // a step is with the database
  bool stopped_ = false;
};

}  // namespace rung::bridge
