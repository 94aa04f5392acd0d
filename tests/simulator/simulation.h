// One simulated world, from its seed to the judge's last word. Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulator/settings.h"

namespace rung::sim {

struct Outcome {
  std::uint64_t hash = 0;  // of all that happened
  std::uint64_t events = 0;
  std::int64_t simulated_us = 0;
  std::string broken;              // the promise; "" = all are kept
  int message = 0;                 // the one concerned; 0 = none
  std::vector<std::string> story;  // of that message, where settings.record
};

Outcome simulate(const Settings& settings);

}  // namespace rung::sim
