// Retention: deletes old finished tasks and records, and partitions the history tables so that partitions can
// be dropped. The owner of shard 0 does it, because that lease exists anyway. Two instances at once (a
// takeover during a step) do no harm: each step may be done twice.
//
// It runs pass after pass (retention_pass.h); retention_schedule decides what each covers. Steps run one at a
// time, on their own thread and connection, at most a quarter of the time. Thread: the loop's.
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

  // `keep`: none = nothing is deleted, but partitions are still created.
  Retention(io::Loop& loop, Deps deps, std::optional<Ms> keep);
  void start();
  void stop();  // the step under way completes
  // Also tries again at once what has failed.
  void reload(std::optional<Ms> keep);
  // Of this instance, since its start.
  RetentionState state() const { return report_.state(keep_); }

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
  bool ours_ = false;    // we held shard 0 at the last check
  bool busy_ = false;    // a step is under way
  bool failed_ = false;  // the last pass was cut short by an error
  bool stopped_ = false;
};

}  // namespace rung::bridge
