// The seed of a property test: from RUNG_TEST_SEED, else new for each run; printed, so that a run can be
// repeated.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace rung {

inline std::mt19937_64 seeded() {
  const char* given = std::getenv("RUNG_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "RUNG_TEST_SEED=" << seed << std::endl;
  return std::mt19937_64{seed};
}

inline std::int64_t between(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>{least, most}(random);
}

}  // namespace rung
