#include "src/core/base/rfc3339.h"

#include <re2/re2.h>

#include <chrono>

namespace rung {
namespace {

#define DATE R"((\d{4})-(\d\d)-(\d\d))"
#define MINUTES R"(([01]\d|2[0-3]):([0-5]\d))"
#define SECONDS R"(:([0-5]\d|60)(?:\.(\d{1,3})\d*)?)"  // 60: a leap second

// What a text has not stays empty, and counts as 0.
struct Parts {
  std::string year, month, day, hour, minute, second, fraction, sign, hours_away, minutes_away;
};

int number(const std::string& digits) { return digits.empty() ? 0 : std::stoi(digits); }

Ms time_of_day(const Parts& parts) {
  return std::chrono::hours{number(parts.hour)} + std::chrono::minutes{number(parts.minute)} +
         std::chrono::seconds{number(parts.second)} + Ms{number((parts.fraction + "000").substr(0, 3))};
}

std::optional<EpochMs> read(std::string_view text, const re2::RE2& form) {
  Parts parts;
  if (!re2::RE2::FullMatch({text.data(), text.size()}, form, &parts.year, &parts.month, &parts.day,
                           &parts.hour, &parts.minute, &parts.second, &parts.fraction, &parts.sign,
                           &parts.hours_away, &parts.minutes_away))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{number(parts.year)},
                                         std::chrono::month{static_cast<unsigned>(number(parts.month))},
                                         std::chrono::day{static_cast<unsigned>(number(parts.day))}};
  if (!date.ok()) return std::nullopt;
  const Ms away =
      std::chrono::hours{number(parts.hours_away)} + std::chrono::minutes{number(parts.minutes_away)};
  const Ms local = std::chrono::sys_days{date}.time_since_epoch() + time_of_day(parts);
  return EpochMs{(parts.sign == "-" ? local + away : local - away).count()};
}

}  // namespace

std::string to_rfc3339(EpochMs t) { return format_utc(t).replace(10, 1, "T") + "Z"; }

std::optional<EpochMs> from_rfc3339(std::string_view text) {
  static const re2::RE2 form(DATE "[Tt ]" MINUTES SECONDS "(?:[Zz]|([+-])" MINUTES ")");
  const auto t = read(text, form);
  if (!t || t->ms < 0 || *t >= kYear10000) return std::nullopt;
  return t;
}

std::optional<EpochMs> read_instant(std::string_view text) {
  static const re2::RE2 form(DATE "(?:[Tt ]" MINUTES "(?:" SECONDS
                                  ")?(?:[Zz]|([+-])([01]\\d|2[0-3]):?([0-5]\\d))?)?");
  return read(text, form);
}

std::optional<Ms> read_time_of_day(std::string_view text) {
  static const re2::RE2 form(MINUTES "(?:" SECONDS ")?");
  Parts parts;
  if (!re2::RE2::FullMatch({text.data(), text.size()}, form, &parts.hour, &parts.minute, &parts.second,
                           &parts.fraction))
    return std::nullopt;
  return time_of_day(parts);
}

}  // namespace rung
