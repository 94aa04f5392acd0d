#include "src/core/base/clock.h"

#include <chrono>
#include <ctime>

namespace rung {

BootUs SystemClock::boot_us() const {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000};
}

EpochMs SystemClock::wall() const {
  using std::chrono::system_clock;
  return {std::chrono::duration_cast<Ms>(system_clock::now().time_since_epoch()).count()};
}

}  // namespace rung
