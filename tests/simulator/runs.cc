#include "tests/simulator/runs.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "src/core/base/failpoint.h"

namespace rung::sim {
namespace {

constexpr std::uint64_t kPlantedMost = 2000;  // seeds in which a planted bug has to show
constexpr std::size_t kStoryMost = 150;       // its last lines

// The result of a process; written to a pipe as raw bytes.
struct Sum {
  std::uint64_t worlds = 0, broken = 0;
  std::int64_t simulated_us = 0;
};

void tell(const Settings& failing, const Outcome& outcome, const std::string& planted) {
  std::printf("BROKEN: %s (message %d)\n  %s\n", outcome.broken.c_str(), outcome.message,
              command_for(failing, planted).c_str());
  std::fflush(stdout);
  Settings small = shrink(failing, outcome);
  small.record = true;
  const Outcome again = simulate(small);
  std::printf("the smallest world found: %s (message %d)\n  %s\n", again.broken.c_str(), again.message,
              command_for(small, planted).c_str());
  const std::size_t skip = again.story.size() > kStoryMost ? again.story.size() - kStoryMost : 0;
  for (std::size_t i = skip; i < again.story.size(); ++i) std::printf("    %s\n", again.story[i].c_str());
  std::fflush(stdout);
}

std::vector<std::uint64_t> read_kept(const std::string& path) {
  std::vector<std::uint64_t> seeds;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::stoull(line));
  }
  return seeds;
}

// `body(i)` in a process each; what it returns comes back through a pipe.
template <typename T>
std::vector<T> fork_each(int jobs, const std::function<T(int)>& body) {
  std::vector<std::pair<pid_t, int>> children;
  std::fflush(stdout);
  for (int i = 0; i < jobs; ++i) {
    int ends[2];
    if (pipe(ends) != 0) break;
    const pid_t child = fork();
    if (child == 0) {
      const T answer = body(i);
      std::fflush(stdout);
      (void)!write(ends[1], &answer, sizeof answer);
      _exit(0);
    }
    close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  std::vector<T> answers;
  for (const auto& [child, end] : children) {
    T answer{};
    if (read(end, &answer, sizeof answer) == sizeof answer) answers.push_back(answer);
    close(end);
    waitpid(child, nullptr, 0);
  }
  return answers;
}

void run_world(const Settings& settings, const std::string& planted, Sum& sum) {
  const Outcome outcome = simulate(settings);
  ++sum.worlds;
  sum.simulated_us += outcome.simulated_us;
  if (outcome.broken.empty()) return;
  ++sum.broken;
  tell(settings, outcome, planted);
}

Sum run_share(const Range& range, int job) {
  Sum sum;
  const auto begun = std::chrono::steady_clock::now();
  const auto jobs = static_cast<std::uint64_t>(range.jobs);
  const std::vector<std::uint64_t> kept =
      range.kept.empty() ? std::vector<std::uint64_t>{} : read_kept(range.kept);
  for (std::size_t i = static_cast<std::size_t>(job); i < kept.size(); i += jobs)
    run_world(draw_settings(kept[i], range.overrides), range.planted, sum);
  for (std::uint64_t i = static_cast<std::uint64_t>(job);; i += jobs) {
    if (range.count > 0 && i >= range.count) break;
    if (range.seconds > 0 && std::chrono::steady_clock::now() - begun > std::chrono::seconds(range.seconds))
      break;
    const double hours = static_cast<double>(sum.simulated_us) / static_cast<double>(kHour);
    if (range.hours > 0 && hours * range.jobs >= range.hours) break;
    run_world(draw_settings(range.first + i, range.overrides), range.planted, sum);
    if (sum.broken >= 5) break;  // enough to look at
  }
  return sum;
}

// The seed in which it showed; 0 = not found.
struct Found {
  std::size_t bug = 0;
  std::uint64_t seed = 0;
  char promise[100] = {};
};

// The promise that the bug breaks with this seed; "" = none, or one that is broken without the bug, too.
std::string broken_by(Bug bug, std::uint64_t seed) {
  plant(bug);
  std::string broken = simulate(draw_settings(seed, {})).broken;
  plant(Bug::none);
  if (!broken.empty() && !simulate(draw_settings(seed, {})).broken.empty()) broken.clear();
  return broken;
}

// `recorded`: the seed to try first; 0 = none.
Found find_bug(std::size_t number, std::uint64_t recorded) {
  Found found{number, 0, {}};
  for (std::uint64_t i = recorded > 0 ? 0 : 1; i <= kPlantedMost && found.seed == 0; ++i) {
    const std::uint64_t seed = i == 0 ? recorded : i;
    const std::string broken = broken_by(static_cast<Bug>(number + 1), seed);
    if (broken.empty()) continue;
    found.seed = seed;
    (void)std::snprintf(found.promise, sizeof found.promise, "%s", broken.c_str());
  }
  return found;
}

// By bug; 0 where the file has none.
std::array<std::uint64_t, kWords<Bug>.size()> read_recorded(const std::string& path) {
  std::array<std::uint64_t, kWords<Bug>.size()> seeds{};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto space = line.find(' ');
    const std::optional<Bug> bug = from_word<Bug>(line.substr(0, space));
    if (bug && space != std::string::npos)
      seeds[static_cast<std::size_t>(*bug) - 1] = std::stoull(line.substr(space));
  }
  return seeds;
}

}  // namespace

std::uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 16U) + device() % 65536;
}

int run_one(std::uint64_t seed, const Overrides& overrides, const std::string& planted) {
  const Settings settings = draw_settings(seed, overrides);
  const Outcome outcome = simulate(settings);
  if (!outcome.broken.empty()) tell(settings, outcome, planted);
  std::printf("seed %llu: %d nodes, %d messages, %lld s, faults %s, actors %s, %llu events\n",
              static_cast<unsigned long long>(seed), settings.nodes, settings.messages,
              static_cast<long long>(settings.active / kSecond), words_of(settings.faults).c_str(),
              words_of(settings.actors).c_str(), static_cast<unsigned long long>(outcome.events));
  std::printf("trace %016llx\n", static_cast<unsigned long long>(outcome.hash));
  return outcome.broken.empty() ? 0 : 1;
}

int run_range(const Range& range) {
  const auto begun = std::chrono::steady_clock::now();
  std::printf("seeds from %llu\n", static_cast<unsigned long long>(range.first));
  const auto sums = fork_each<Sum>(range.jobs, [&](int job) { return run_share(range, job); });
  Sum all;
  for (const Sum& sum : sums) {
    all.worlds += sum.worlds;
    all.broken += sum.broken;
    all.simulated_us += sum.simulated_us;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::printf("%llu worlds, %.1f simulated hours in %.0f s, %llu broken\n",
              static_cast<unsigned long long>(all.worlds),
              static_cast<double>(all.simulated_us) / static_cast<double>(kHour), took.count(),
              static_cast<unsigned long long>(all.broken));
  const bool ended = sums.size() == static_cast<std::size_t>(range.jobs);
  if (!ended) std::printf("a process did not end well\n");
  return ended && all.broken == 0 ? 0 : 1;
}

int find_planted(const std::string& which, const std::string& recorded, int jobs) {
  std::vector<std::size_t> bugs;
  for (std::size_t i = 0; i < kWords<Bug>.size(); ++i) {
    if (which == "all" || which == kWords<Bug>[i]) bugs.push_back(i);
  }
  if (bugs.empty()) {
    std::fprintf(stderr, "--planted: no such bug\n");
    return 2;
  }
  const auto seeds = read_recorded(recorded);
  using Share = std::array<Found, kWords<Bug>.size()>;
  const auto shares = fork_each<Share>(jobs, [&](int job) {
    Share share{};
    for (std::size_t i = static_cast<std::size_t>(job); i < bugs.size();
         i += static_cast<std::size_t>(jobs)) {
      share[bugs[i]] = find_bug(bugs[i], seeds[bugs[i]]);
    }
    return share;
  });
  std::printf("%-27s %6s  %s\n", "planted bug", "seed", "the promise that it broke");
  bool all = true;
  for (const std::size_t bug : bugs) {
    const Found* found = nullptr;
    for (const Share& share : shares) {
      if (share[bug].seed > 0) found = &share[bug];
    }
    all = all && found != nullptr;
    std::printf("%-27s %6s  %s\n", std::string(kWords<Bug>[bug]).c_str(),
                found != nullptr ? std::to_string(found->seed).c_str() : "-",
                found != nullptr ? found->promise : "NOT FOUND");
    if (found != nullptr && !recorded.empty() && found->seed != seeds[bug]) {
      std::printf("  record it: %s %llu, instead of %llu\n", std::string(kWords<Bug>[bug]).c_str(),
                  static_cast<unsigned long long>(found->seed), static_cast<unsigned long long>(seeds[bug]));
    }
  }
  return all ? 0 : 1;
}

}  // namespace rung::sim
