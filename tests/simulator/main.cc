// The command of the simulator: see docs/simulation.md. tests/simulation builds it and runs it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/io/log.h"
#include "tests/simulator/simulation.h"

int main(int argc, char** argv) {
  using namespace rung::sim;
  rung::log::configure("off", "text");
  const std::uint64_t from = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t to = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : from;
  int bad = 0;
  for (std::uint64_t seed = from; seed <= to; ++seed) {
    Settings settings = draw_settings(seed, {});
    settings.record = from == to;
    const Outcome outcome = simulate(settings);
    if (!outcome.broken.empty()) {
      ++bad;
      std::printf("seed %llu: %s (message %d)\n", (unsigned long long)seed, outcome.broken.c_str(), outcome.message);
      for (const auto& line : outcome.story) std::printf("  %s\n", line.c_str());
      std::fflush(stdout);
    }
    if (from == to) std::printf("trace %016llx events %llu\n", (unsigned long long)outcome.hash, (unsigned long long)outcome.events);
  }
  std::printf("%d broken\n", bad);
}
