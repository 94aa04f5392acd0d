// The output of rung simulate. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/api/json/json.h"
#include "src/api/rules/replay.h"

namespace rung::cli {

struct SimulationColumn {
  std::string title;   // "rung.yaml", "as it was"
  std::string source;  // for programs: "config", "history"
  api::ReplayTotals totals;
};

struct Simulation {
  std::string queue;
  EpochMs from, until;  // of the failures
  std::uint64_t seed = 1;
  bool cut = false;  // not all failures of the history were read
  SimulationColumn tried;
  std::optional<SimulationColumn> beside;
};

// How the time from the first delivery to the last is divided into lines.
struct LoadChart {
  EpochMs from;
  Ms width{0};
  std::size_t lines = 0;
};
LoadChart load_chart(const Simulation& simulation);

std::string to_text(const Simulation& simulation);
api::Json to_json(const Simulation& simulation);

}  // namespace rung::cli
