// When the next cycle of the leases comes: every third of the lease, up to a tenth of that earlier; when the
// first lease runs out that isn't ours; and soon while shards change hands. Each with a random part, so that
// no two instances keep step. Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "src/bridge/lease_cycle.h"
#include "src/io/loop.h"

namespace rung::bridge {

class CycleTimer {
 public:
  CycleTimer(io::Loop& loop, const Clock& clock, Ms lease, std::uint64_t seed, std::function<void()> go);

  void at_once() { timer_.start(Ms{0}); }
  void stop() { timer_.stop(); }
  // A cycle begins.
  void begun() { begun_ = clock_.boot(); }
  // It has ended, with this answer; nullptr: it failed. `news`: the others should know something at once.
  void arm(const LeaseCycle* answer, bool news);

 private:
  Ms random_up_to(Ms most);

  const Clock& clock_;
  const Ms lease_;
  std::minstd_rand dice_;
  BootMs begun_{0};  // the last cycle
  Ms hurry_{0};      // until the next one, while shards change hands
  io::Timer timer_;
};

}  // namespace rung::bridge
