#include "src/cli/shared/when.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "levels/duration.h"

namespace rung::cli {
namespace {

// Reads `digits` digits at the front of `text`.
std::optional<int> number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool skip(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::sys_days> read_date(std::string_view& text) {
  const auto year = number(text, 4);
  if (!year || !skip(text, "-")) return std::nullopt;
  const auto month = number(text, 2);
  if (!month || !skip(text, "-")) return std::nullopt;
  const auto day = number(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date};
}

// "17:05", "17:05:00", "17:05:00.123456"; truncated to milliseconds.
std::optional<Ms> read_time(std::string_view& text) {
  const auto hour = number(text, 2);
  if (!hour || *hour > 23 || !skip(text, ":")) return std::nullopt;
  const auto minute = number(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  Ms time = std::chrono::hours{*hour} + std::chrono::minutes{*minute};
  if (!skip(text, ":")) return time;
  const auto second = number(text, 2);
  if (!second || *second > 60) return std::nullopt;
  time += std::chrono::seconds{*second};
  if (!skip(text, ".")) return time;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  for (int worth = 100; !text.empty() && text.front() >= '0' && text.front() <= '9'; worth /= 10) {
    time += Ms{worth * (text.front() - '0')};
    text.remove_prefix(1);
  }
  return time;
}

// "Z", "+01:00", "+0100", nothing (UTC).
std::optional<Ms> read_offset(std::string_view& text) {
  if (text.empty() || skip(text, "Zz")) return Ms{0};
  const bool west = text.front() == '-';
  if (!skip(text, "+-")) return std::nullopt;
  const auto hour = number(text, 2);
  skip(text, ":");
  const auto minute = number(text, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59) return std::nullopt;
  const Ms offset = std::chrono::hours{*hour} + std::chrono::minutes{*minute};
  return west ? -offset : offset;
}

std::optional<EpochMs> read_instant(std::string_view text) {
  const auto date = read_date(text);
  if (!date) return std::nullopt;
  const EpochMs midnight{std::chrono::duration_cast<Ms>(date->time_since_epoch()).count()};
  if (text.empty()) return midnight;
  if (!skip(text, "Tt ")) return std::nullopt;
  const auto time = read_time(text);
  if (!time) return std::nullopt;
  const auto offset = read_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  return midnight + *time - *offset;
}

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
  std::string_view rest = text;
  if (const auto time = read_time(rest); time && rest.empty()) return next_local(*time, now);
  if (const auto instant = read_instant(text)) return *instant;
  return tl::unexpected(fmt::format(
      "'{}' is neither a time of day (08:00, by this machine's clock) nor a time (2026-11-21T17:05:00Z, UTC "
      "unless it has an offset)",
      text));
}

}  // namespace rung::cli
