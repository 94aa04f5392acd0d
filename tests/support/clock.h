// The machine's clock, for tests.
#pragma once

#include "src/core/base/time.h"

namespace rung {

inline const SystemClock& test_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace rung
