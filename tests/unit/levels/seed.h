// Random numbers for a property test.
#pragma once

#include <cstdint>
#include <random>

#include "tests/support/seed.h"

namespace rung {

inline std::mt19937_64 seeded() { return std::mt19937_64{test::seed()}; }

inline std::int64_t between(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>{least, most}(random);
}

}  // namespace rung
