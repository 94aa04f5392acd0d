#include "src/core/time.h"

#include <ctime>

namespace rung {

BootMs boot_now() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000};
}

std::string format_utc(EpochMs t) {
  std::int64_t seconds = t.ms / 1000;
  std::int64_t ms = t.ms % 1000;
  if (ms < 0) {
    ms += 1000;
    --seconds;
  }
  const std::time_t whole = seconds;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[40];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  std::string out(text, n);
  out += '.';
  out += static_cast<char>('0' + ms / 100);
  out += static_cast<char>('0' + ms / 10 % 10);
  out += static_cast<char>('0' + ms % 10);
  return out;
}

}  // namespace rung
