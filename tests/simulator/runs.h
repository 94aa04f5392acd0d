// Many worlds: in a range, for a time, until a planted bug is found; on several processes.
// Thread: one; forks.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulator/simulation.h"

namespace rung::sim {

struct Range {
  std::uint64_t first = 1, count = 0;  // 0 = as long as seconds and hours say
  int seconds = 0;
  double hours = 0;  // simulated
  int jobs = 2;
  std::string kept;  // a file with seeds that are run first; "" = none
  Overrides overrides;
  std::string planted;
};

std::uint64_t fresh_seed();

// Each answers the exit code: 0 = all promises were kept (or all planted bugs found).
// One world; its last line is "trace HASH".
int run_one(std::uint64_t seed, const Overrides& overrides, const std::string& planted);
int run_range(const Range& range);
// `which`: a bug's name, or all.
int find_planted(const std::string& which, int jobs);

// Makes a failing world smaller, as long as the same promise is broken.
Settings shrink(Settings settings, const Outcome& outcome);

}  // namespace rung::sim
