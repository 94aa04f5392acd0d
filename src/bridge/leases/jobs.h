// The table of what is done at intervals, and by which instance: a row for each job. Each is under way once
// at most, in a lane of the database's jobs. Thread: the loop's.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Jobs {
 public:
  // Which instances do it: all; those that hold shards; the one that holds shard 0.
  enum class Who { all, owners, leader };
  // What follows on the loop. None: nothing.
  using Then = std::function<void()>;
  // On a store thread. An error is logged, once for as long as it stays the same, and the job comes again.
  using Work = std::function<Then(Store&)>;
  struct Job {
    const char* name;  // in the log
    Ms period;
    Lane lane;
    Who who;
    std::function<Work()> begin;  // on the loop. None: there is nothing to do now
    bool on_demand = false;       // only after want() or soon(), and after an error
  };
  using Id = std::size_t;

  Jobs(io::Loop& loop, StoreJobs& store, const Shards& shards);

  Id add(Job job);
  // `act` on the loop; what it submits to the database has bounds of its own.
  void each(const char* name, Ms period, Who who, std::function<void()> act);
  void start();
  void stop();  // what is under way completes
  // Begins at the end of its period.
  void want(Id job);
  // Begins after this, whatever its period says.
  void soon(Id job, Ms after);
  // Begins at once, also after stop(); if it is under way, again when that has ended.
  void run(Id job);

 private:
  struct Row {
    Job job;
    BootMs at{0};         // when it begins
    bool wanted = false;  // on demand
    bool busy = false;    // under way
    bool again = false;
    std::string failed = {};  // why, as last logged; "" = it did not
  };

  BootMs now() const { return clock_.boot(); }
  void tick();
  void arm();
  bool is_ours(const Job& job) const;
  void begin(Row& row);
  void ended(Row& row, const Result<Then>& then);

  const Clock& clock_;
  StoreJobs& store_;
  const Shards& shards_;
  std::deque<Row> rows_;  // never move
  bool started_ = false;
  io::Timer timer_;  // the next one begins
};

}  // namespace rung::bridge
