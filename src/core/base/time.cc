#include "src/core/base/time.h"

#include <fmt/compile.h>
#include <re2/re2.h>

#include <chrono>
#include <ctime>

namespace rung {

BootUs SystemClock::boot_us() const {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000};
}

EpochMs SystemClock::wall() const {
  return {std::chrono::duration_cast<Ms>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

std::string format_utc(EpochMs t) {
  // Not by strftime: it takes a lock for the time zone, and this is done a thousand times an insert.
  using namespace std::chrono;
  constexpr EpochMs kYear1{-62'135'596'800'000};
  if (t < kYear1) return "0001-01-01 00:00:00.000";  // no column can store it
  if (t >= kYear10000) return "9999-12-31 23:59:59.999";
  const sys_time<Ms> at{Ms{t.ms}};
  const auto day = floor<days>(at);
  const year_month_day date{day};
  const hh_mm_ss time{at - day};
  return fmt::format(FMT_COMPILE("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}"), static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

namespace {

// Parts of regular expressions.
const std::string kDatePattern = R"((\d{4})-(\d\d)-(\d\d))";
const std::string kMinutePattern = R"(([01]\d|2[0-3]):([0-5]\d))";
const std::string kSecondPattern = R"(:([0-5]\d|60)(?:\.(\d{1,3})\d*)?)";  // 60: a leap second

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
  static const re2::RE2 form(kDatePattern + "[Tt ]" + kMinutePattern + kSecondPattern + "(?:[Zz]|([+-])" +
                             kMinutePattern + ")");
  const auto t = read(text, form);
  if (!t || t->ms < 0 || *t >= kYear10000) return std::nullopt;
  return t;
}

std::optional<EpochMs> read_instant(std::string_view text) {
  static const re2::RE2 form(kDatePattern + "(?:[Tt ]" + kMinutePattern + "(?:" + kSecondPattern +
                             ")?(?:[Zz]|([+-])([01]\\d|2[0-3]):?([0-5]\\d))?)?");
  return read(text, form);
}

std::optional<Ms> read_time_of_day(std::string_view text) {
  static const re2::RE2 form(kMinutePattern + "(?:" + kSecondPattern + ")?");
  Parts parts;
  if (!re2::RE2::FullMatch({text.data(), text.size()}, form, &parts.hour, &parts.minute, &parts.second,
                           &parts.fraction))
    return std::nullopt;
  return time_of_day(parts);
}

}  // namespace rung
