// How many lines of one event the log takes: a fault that repeats for each message must not fill the disk,
// nor hide everything else. Thread: one at a time (log.cc holds a mutex).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rung::log {

class LogLimit {
 public:
  using Time = std::chrono::milliseconds;  // since any point that stays the same

  // Enough for what happens once for each queue of a large configuration; a fault of every message is far
  // beyond.
  static constexpr std::uint64_t kMostLines = 300;
  static constexpr std::chrono::seconds kWindow{60};

  struct Suppressed {
    std::string event;
    std::uint64_t lines = 0;
  };

  // Whether this line is to be written.
  bool admit(std::string_view event, Time now);

  // The events whose window is over and of which lines were suppressed: to be written down.
  std::vector<Suppressed> take_suppressed(Time now);

 private:
  struct Window {
    Time began;
    std::uint64_t lines = 0;
  };

  // The windows that are open, by event: constant phrases, so there are at most some hundred.
  std::map<std::string, Window, std::less<>> windows_;
  // No window with suppressed lines ends before this: so most lines don't look at them all.
  Time next_ = Time::max();
};

}  // namespace rung::log
