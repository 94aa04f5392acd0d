#include "src/cli/shared/when.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "levels/duration.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

// The next time after `now` at which this machine's clock shows `time`. Where it skips that time (daylight
// saving begins), the library chooses one near it.
EpochMs next_local(Ms time, EpochMs now) {
  const std::time_t unix_time = now.ms / 1000;
  std::tm today{};
  localtime_r(&unix_time, &today);
  const std::chrono::hh_mm_ss<Ms> clock(time);
  for (int days = 0;; ++days) {
    std::tm then = today;
    then.tm_mday += days;  // mktime() carries over
    then.tm_hour = static_cast<int>(clock.hours().count());
    then.tm_min = static_cast<int>(clock.minutes().count());
    then.tm_sec = static_cast<int>(clock.seconds().count());
    then.tm_isdst = -1;  // unknown
    const EpochMs at{static_cast<std::int64_t>(std::mktime(&then)) * 1000 + clock.subseconds().count()};
    if (at > now || days == 2) return at;
  }
}

}  // namespace

tl::expected<EpochMs, std::string> parse_when(std::string_view text, EpochMs now, Direction direction) {
  if (text == "now") return now;
  if (const auto instant = read_instant(text)) return *instant;
  const bool minus = text.starts_with('-');
  const bool is_signed = minus || text.starts_with('+');
  const auto duration = levels::parse_duration(is_signed ? text.substr(1) : text);
  if (!duration) {
    return tl::unexpected(
        fmt::format("'{}' is neither a time (2026-11-21T17:05:00Z, UTC unless it has an offset) nor a "
                    "duration (90s, 1h30m, 2d)",
                    text));
  }
  const bool back = is_signed ? minus : direction == Direction::past;
  return back ? now - *duration : now + *duration;
}

tl::expected<EpochMs, std::string> parse_until(std::string_view text, EpochMs now) {
  if (const auto time = read_time_of_day(text)) return next_local(*time, now);
  if (const auto instant = read_instant(text)) return *instant;
  return tl::unexpected(fmt::format(
      "'{}' is neither a time of day (08:00, by this machine's clock) nor a time (2026-11-21T17:05:00Z, UTC "
      "unless it has an offset)",
      text));
}

}  // namespace rung::cli
