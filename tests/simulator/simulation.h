// Runs one simulated world, from its seed to the judge's final verdict. Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulator/settings.h"

namespace rung::sim {

struct Outcome {
  std::uint64_t hash = 0;  // of all events
  std::uint64_t events = 0;
  std::int64_t simulated_us = 0;
  std::string broken;              // the broken promise; "" = all were kept
  int message = 0;                 // the message concerned; 0 = none
  std::vector<std::string> story;  // of that message, if settings.record is set
};

Outcome simulate(const Settings& settings);

}  // namespace rung::sim
