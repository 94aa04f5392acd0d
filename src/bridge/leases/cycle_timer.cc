#include "src/bridge/leases/cycle_timer.h"

#include <algorithm>
#include <utility>

namespace rung::bridge {
namespace {

// After another instance's lease has expired, spread so that we do not all start in the same millisecond.
constexpr Ms kAfterExpiry{20}, kMostSpread{300};
// While shards change hands: the first delay, which then grows up to a tenth of the lease.
constexpr Ms kHurry{50};

}  // namespace

CycleTimer::CycleTimer(io::Loop& loop, const Clock& clock, Ms lease, std::uint64_t seed,
                       std::function<void()> go)
    : clock_(clock),
      lease_(lease),
      dice_(static_cast<std::minstd_rand::result_type>(seed)),
      timer_(loop, std::move(go)) {}

Ms CycleTimer::random_up_to(Ms most) {
  return Ms{std::uniform_int_distribution<std::int64_t>(0, most.count())(dice_)};
}

void CycleTimer::arm(const LeaseCycle* answer, bool news) {
  const Ms third = lease_ / 3, tenth = lease_ / 10;
  BootMs at = begun_ + third - random_up_to(third / 10);
  if (answer != nullptr && answer->next_expiry && !answer->memory.row_gone)
    at = std::min(at, *answer->next_expiry + kAfterExpiry + random_up_to(std::min(kMostSpread, tenth)));
  if (answer != nullptr && answer->unsettled) {
    hurry_ = std::clamp(hurry_ * 2, kHurry, std::max(tenth, kHurry));
    at = std::min(at, clock_.boot() + hurry_);
  } else {
    hurry_ = Ms{0};
  }
  if (news) at = clock_.boot();
  timer_.start(std::max(at - clock_.boot(), Ms{1}));
}

}  // namespace rung::bridge
