// Deletes old finished tasks and records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/upkeep/retention_pass.h"
#include "src/core/base/db_clock.h"
#include "src/core/base/time.h"

namespace rung::bridge {

// Decides what the next retention pass covers: all finished tasks from the beginning, the partitions, the
// leftovers in partitions that stay. Thread: the loop's.
class RetentionSchedule {
 public:
  // The next pass covers all of it: the retention has changed.
  void look_at_all() { walk_at_ = look_at_ = sweep_at_ = {0}; }
  // The same, and forgets the state of the tables: another instance was in charge.
  void begin_anew();

  // `last`: the previous pass; the next one continues from its cursor.
  RetentionPass next(const RetentionPass& last, std::optional<Ms> keep, EpochMs now, BootMs boot);
  // Tasks were deleted: their partition may be empty.
  void tasks_went(BootMs now);
  void ended(const RetentionPass& pass, BootMs now);
  // An error cut the pass short. Returns how long to rest.
  Ms failed(BootMs now);

 private:
  static constexpr Ms kFirstBusy{std::chrono::minutes{5}};

  // 0 = with the next pass.
  BootMs walk_at_{0}, look_at_{0}, sweep_at_{0};
  BootMs calm_until_{0};       // the tables were in use: no check before this
  Ms busy_pause_{kFirstBusy};  // twice as long each time
};

// For metrics.
struct RetentionState {
  RetentionTotals totals;
  std::optional<Ms> keep;  // none: retention is off
  // When nothing was left to delete, or this instance took charge, whichever is later; 0 = it never did.
  EpochMs tasks_done, partitions_done;
};

// Totals of retention since the start, and one log line for a day's work instead of one per batch. Thread:
// the loop's.
class RetentionReport {
 public:
  RetentionState state(std::optional<Ms> keep) const {
    return {totals_, keep, tasks_done_, partitions_done_};
  }

  // A step is done.
  void add(const RetentionPass& step, EpochMs now);
  // This instance is in charge from now on.
  void took_charge(EpochMs now) { tasks_done_ = partitions_done_ = now; }
  // A pass has ended: logs what is worth logging.
  void ended(const RetentionPass& pass, EpochMs db_now, BootMs now);

 private:
  static constexpr Ms kSayEvery{std::chrono::hours{24}};

  RetentionTotals totals_, said_;     // said_: at the last log line
  std::vector<std::string> dropped_;  // partitions, since then
  std::string trouble_;               // as last logged
  EpochMs tasks_done_, partitions_done_;
  BootMs said_at_{BootMs{0} - kSayEvery};
};

// Retention: deletes old finished tasks and records, and partitions the history tables so that partitions can
// be dropped. The owner of shard 0 does it, because that lease exists anyway. Two instances at once (a
// takeover during a step) do no harm: each step may be done twice.
//
// It runs pass after pass (retention_pass.h); RetentionSchedule decides what each covers. Steps run one at a
// time, on their own thread and connection, at most a quarter of the time. Thread: the loop's.
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
