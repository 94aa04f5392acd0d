// When each queue may next open or close by itself, because a pause, a hold or a window begins or ends: at
// most one time a queue. A timer calls `due` at the first of them. The loop's clock may drift from the
// database's, which these times are by: so the timer is only started for a time that is less than kTick away,
// and take_due() is to be called each kTick. Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/core/base/db_clock.h"
#include "src/io/loop.h"

namespace rung::bridge {

class GateEnds {
 public:
  static constexpr Ms kTick{500};

  GateEnds(io::Loop& loop, const DbClock& clock, std::function<void()> due)
      : clock_(clock), timer_(loop, std::move(due)) {}

  void stop() { timer_.stop(); }
  // Replaces the time of the queue. None: it has no time any more.
  void set(const std::string& queue, std::optional<EpochMs> at);
  // Calls `update` for each queue whose time has come, the earliest first. The queue then has no time, unless
  // `update` calls set().
  void take_due(const std::function<void(const std::string& queue)>& update);
  const std::map<std::string, EpochMs>& all() const { return by_queue_; }

 private:
  void start_timer();

  const DbClock& clock_;
  std::map<std::string, EpochMs> by_queue_;
  std::set<std::pair<EpochMs, std::string>> by_time_;  // the same
  io::Timer timer_;
};

}  // namespace rung::bridge
