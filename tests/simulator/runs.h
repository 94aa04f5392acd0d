// Runs many simulations, on several processes: a range of seeds, for some time, or until a planted bug is
// found.
// Thread: one; forks.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulator/simulation.h"

namespace rung::sim {

struct Range {
  std::uint64_t first = 1, count = 0;  // 0 = limited by seconds and hours only
  int seconds = 0;
  double hours = 0;  // of simulated time
  int jobs = 2;
  std::string kept;  // a file with seeds that are run first; "" = none
  Overrides overrides;
  std::string planted;
};

std::uint64_t fresh_seed();

// Each returns the exit code: 0 = all promises were kept (or all planted bugs found).
// One simulation; its last output line is "trace HASH".
int run_one(std::uint64_t seed, const Overrides& overrides, const std::string& planted);
int run_range(const Range& range);
// `which`: a bug's name, or all. `recorded`: a file with a line "BUG SEED" for each, the seed that found it
// last; "" = none. It is tried first; if the bug does not show there, the seeds from 1 are searched.
int find_planted(const std::string& which, const std::string& recorded, int jobs);

// Reduces a failing simulation as long as the same promise is broken.
Settings shrink(Settings settings, const Outcome& outcome);

}  // namespace rung::sim
