// Retention: lets go of what is over and old, and keeps the history's tables in parts that can be dropped.
// Whoever holds shard 0 does it: a lease that is there anyway. Two at once (a takeover while a step is under
// way) do nothing wrong, each step may be done twice.
//
// A pass: parts for the days to come; old tasks, in small batches; old records; old parts, dropped whole or,
// where a task keeps one, emptied row by row. A step at a time, on a thread and a connection of their own, at
// most a quarter of the time. Thread: the loop's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bridge/retention_plan.h"
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
  // What this instance has done so far. parts: dropped whole.
  struct Done {
    std::int64_t tasks = 0, parts = 0, audit = 0, bulks = 0, events = 0;
    std::optional<EpochMs> last;  // when something went
  };

  // `keep`: none = nothing is let go of; parts are made all the same.
  Retention(io::Loop& loop, Deps deps, std::optional<Ms> keep);
  void start();
  void stop();  // the step under way ends
  void reload(std::optional<Ms> keep);
  const Done& done() const { return done_; }

 private:
  enum class Stage { add, tasks, records, list, drop, sweep, through };
  // Where a pass stands. Goes to the database and comes back.
  struct Pass {
    Stage stage = Stage::add;
    std::optional<Ms> keep;
    EpochMs now;         // when it began
    bool look = false;   // at the parts, too
    bool sweep = false;  // and at what those that stay hold
    OverPlace place;
    std::vector<Part> old;  // still to be looked at, the last one first
    TaskId sweep_from, sweep_to;
    bool busy = false;     // the tables were: later
    bool refused = false;  // a part could not be dropped: nor can the next
    std::string trouble;   // with the tables; the rest goes on
    Done done;             // by the last step
    std::vector<std::string> dropped;
    Ms took{0};  // the last step
  };

  void tick();
  void begin();
  void submit();
  void arrived(Result<Pass> pass);
  void through();
  static Result<Pass> perform(Pass pass, const Clock& here, RetentionStore& store);
  static Result<void> add(Pass& pass, RetentionStore& store);
  static Result<void> list(Pass& pass, RetentionStore& store);
  static Result<void> drop(Pass& pass, RetentionStore& store);

  const Deps deps_;
  std::optional<Ms> keep_;
  io::Timer timer_;
  Pass pass_;
  Done done_, said_;                // said_: as of the last line in the log
  std::vector<std::string> names_;  // of the parts dropped since
  std::string trouble_;             // as last told
  BootMs said_at_, began_{0};
  // When all finished tasks are looked at again, the parts, and what is in those that stay; 0 = with the next
  // pass.
  BootMs walk_at_{0}, look_at_{0}, sweep_at_{0};
  BootMs calm_until_{0};  // the tables were in use: no look before this
  Ms patience_;
  bool ours_ = false;  // we held shard 0 at the last look
  bool busy_ = false;
  bool stopped_ = false;
};

}  // namespace rung::bridge
