// Asks twice a second, in one statement, which kinds of work wait in the tables (WorkWaiting). What has
// nothing to do asks nothing by itself: an idle sidecar costs the database little. While nothing waits, the
// lanes of queries, of the flow and of upkeep take turns: the database ends an idle connection, and the first
// message after a pause would have to wait for a login, and then upkeep for another one.
//
// Thread: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/db_clock.h"
#include "src/io/loop.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class WorkPoll {
 public:
  using Found = std::function<void(const WorkWaiting&)>;

  // Does not ask while this instance holds no shard: it could not act on the answer.
  WorkPoll(io::Loop& loop, StoreJobs& jobs, Shards& shards, DbClock& clock, Found found);
  void start();
  void stop() { timer_.stop(); }

 private:
  void ask();

  StoreJobs& jobs_;
  Shards& shards_;
  DbClock& clock_;
  const Found found_;
  io::Timer timer_;
  std::array<bool, 3> busy_{};  // by lane: one that is stuck does not stop the others
  std::size_t turn_ = 0;
  bool quiet_ =
      true;  // the last answer had no work; with work, the flow's lane is busy and would delay the poll
};

}  // namespace rung::bridge
