// What instances tell each other and people about gates, beside the breakers: a consumer's retry-after that
// holds back a whole queue; that a queue is outside its window, or that a rate limits it (for the view
// retry_queues). Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/gates.h"
#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/core/ids.h"
#include "src/core/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class GateNotes {
 public:
  // `limited`: the queues that a rate limits now.
  GateNotes(io::Loop& loop, StoreJobs& jobs, DbClock& clock, Gates& gates, const RuleBookPtr& rules,
            std::function<std::vector<std::string>()> limited);

  void start();
  void stop();
  // A consumer of this task asked that the queue wait.
  void hold_queue(const std::string& queue, Ms wait, TaskId task);

 private:
  void tick();
  void note_window(const std::string& queue, const Gates::Closed& closed, EpochMs now);
  void note_limit(const std::string& queue, EpochMs now);
  void change(const std::string& queue, GateChange change);
  void forget_rates(EpochMs now);

  StoreJobs& jobs_;
  DbClock& clock_;
  Gates& gates_;
  const RuleBookPtr& rules_;
  const std::function<std::vector<std::string>()> limited_;
  std::set<std::string> busy_;  // a note is being written
  std::int64_t ticks_ = 0;
  io::Timer tick_;
};

}  // namespace rung::bridge
