// The command of the simulator: see CONTRIBUTING.md. tests/simulation builds it and runs it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"
#include "tests/simulator/runs.h"

namespace rung::sim {
namespace {

struct Options {
  std::optional<std::uint64_t> seed;
  std::string seeds, faults, actors, plant, kept, planted, planted_seeds;
  int count = 0, seconds = 0, jobs = 2;
  double hours = 0;
  std::optional<int> nodes, messages, active, keep;
};

int usage(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 2;
}

bool overrides_of(const Options& options, Overrides& out) {
  out.nodes = options.nodes;
  out.messages = options.messages;
  out.active_s = options.active;
  out.keep_s = options.keep;
  if (!options.faults.empty()) {
    out.faults = faults_from(options.faults);
    if (!out.faults) return false;
  }
  if (!options.actors.empty()) {
    out.actors = actors_from(options.actors);
    if (!out.actors) return false;
  }
  return true;
}

int run(const Options& options) {
  Overrides overrides;
  if (!overrides_of(options, overrides)) return usage("--faults or --actors has a word that is not known");
  const std::optional<Bug> bug = from_word<Bug>(options.plant);
  if (!options.plant.empty() && !bug) return usage("--plant: no such bug");
  plant(bug.value_or(Bug::none));
  if (!options.planted.empty()) return find_planted(options.planted, options.planted_seeds, options.jobs);
  if (options.seed) return run_one(*options.seed, overrides, options.plant);
  Range range;
  range.kept = options.kept;
  range.jobs = options.jobs;
  range.overrides = overrides;
  range.planted = options.plant;
  const auto dots = options.seeds.find("..");
  range.first = options.seeds.empty() ? fresh_seed() : std::stoull(options.seeds);
  range.count = static_cast<std::uint64_t>(options.count);
  if (dots != std::string::npos) range.count = std::stoull(options.seeds.substr(dots + 2)) - range.first + 1;
  range.seconds = options.seconds;
  range.hours = options.hours;
  if (range.count == 0 && range.seconds == 0 && range.hours == 0) range.count = 100;
  return run_range(range);
}

}  // namespace
}  // namespace rung::sim

int main(int argc, char** argv) {
  rung::sim::Options options;
  CLI::App app("A world of sidecars, broker and database in virtual time: CONTRIBUTING.md");
  app.add_option("--seed", options.seed, "one world; its last line is the hash of its trace");
  app.add_option("--seeds", options.seeds, "A..B, or the first where --count says how many");
  app.add_option("--count", options.count, "so many worlds");
  app.add_option("--seconds", options.seconds, "fresh seeds for so long");
  app.add_option("--hours", options.hours, "fresh seeds until so much time is simulated");
  app.add_option("--planted", options.planted, "finds the planted bug of that name, or all of them")
      ->expected(0, 1)
      ->default_str("all");
  app.add_option("--planted-seeds", options.planted_seeds,
                 "a file with the seed that found each planted bug last");
  app.add_option("--plant", options.plant, "with this bug in it");
  app.add_option("--kept", options.kept, "a file with seeds that are run first");
  app.add_option("--jobs", options.jobs, "processes at a time");
  app.add_option("--nodes", options.nodes, "instead of what the seed says");
  app.add_option("--messages", options.messages, "the same");
  app.add_option("--active", options.active, "the same: seconds of new messages and faults");
  app.add_option("--keep", options.keep,
                 "judge and delete what ended so many seconds ago: for many messages");
  app.add_option("--faults", options.faults, "the same: kill,pause,... or none");
  app.add_option("--actors", options.actors, "the same: rejects,results,... or none");
  bool verbose = false;
  app.add_flag("--log", verbose, "what the sidecars log");
  CLI11_PARSE(app, argc, argv);
  rung::log::configure(verbose ? "debug" : "off", "text");
  return rung::sim::run(options);
}
