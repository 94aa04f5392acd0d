// The clocks of tests: the machine's, and one that a test moves. Thread: any.
#pragma once

#include <atomic>

#include "src/core/base/time.h"

namespace rung {

inline const SystemClock& test_clock() {
  static const SystemClock clock;
  return clock;
}

// The wall clock stands.
class HandClock final : public Clock {
 public:
  BootUs boot_us() const override { return {boot_ms_ * 1000}; }
  EpochMs wall() const override { return {1'800'000'000'000}; }
  void advance(Ms by) { boot_ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> boot_ms_{1'000'000};
};

}  // namespace rung
