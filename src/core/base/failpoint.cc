#include "src/core/base/failpoint.h"

#ifdef RUNG_FAILPOINTS

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace rung {
namespace {

struct Armed {
  std::string name;  // "" = none
  int times = 1;
};

const Armed& armed() {
  static const Armed read = [] {
    Armed a;
    const char* text = std::getenv("RUNG_FAILPOINT");
    if (text == nullptr) return a;
    a.name = text;
    if (const auto colon = a.name.rfind(':'); colon != std::string::npos) {
      std::from_chars(a.name.data() + colon + 1, a.name.data() + a.name.size(), a.times);
      a.name.resize(colon);
    }
    return a;
  }();
  return read;
}

std::atomic<int> passed{0};
std::atomic<Bug> the_bug{Bug::none};

void reached() {
  if (passed.fetch_add(1) + 1 != armed().times) return;
  const std::string word = "failpoint " + armed().name + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, word.data(), word.size());
  kill(getpid(), SIGKILL);
  for (;;) pause();  // wait here for the signal
}

}  // namespace

void plant(Bug bug) { the_bug.store(bug, std::memory_order_relaxed); }
bool planted(Bug bug) { return the_bug.load(std::memory_order_relaxed) == bug; }

void failpoint(std::string_view name, std::string_view rest) {
  const std::string& wanted = armed().name;
  if (wanted.size() == name.size() + rest.size() && wanted.starts_with(name) && wanted.ends_with(rest))
    reached();
}

}  // namespace rung

#endif
