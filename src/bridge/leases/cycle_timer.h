// Schedules the lease cycles: every third of the lease, up to a tenth of that earlier; when the first lease
// of another instance expires; and soon while shards change hands. Each delay has a random part, so that
// instances do not run in lockstep. Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "src/bridge/leases/lease_cycle.h"
#include "src/io/loop.h"

namespace rung::bridge {

class CycleTimer {
 public:
  CycleTimer(io::Loop& loop, const Clock& clock, Ms lease, std::uint64_t seed, std::function<void()> go);

  void at_once() { timer_.start(Ms{0}); }
  void stop() { timer_.stop(); }
  // A cycle begins.
  void begun() { begun_ = clock_.boot(); }
  // A cycle has ended with this answer; nullptr: it failed. `news`: the others should learn something at
  // once.
  void arm(const LeaseCycle* answer, bool news);

 private:
  Ms random_up_to(Ms most);

  const Clock& clock_;
  const Ms lease_;
  std::minstd_rand dice_;
  BootMs begun_{0};  // start of the last cycle
  Ms hurry_{0};      // delay of the next cycle while shards change hands
  io::Timer timer_;
};

}  // namespace rung::bridge
