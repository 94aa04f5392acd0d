#include "src/core/base/time.h"

#include <chrono>

namespace rung {

std::string format_utc(EpochMs t) {
  std::int64_t seconds = t.ms / 1000;
  std::int64_t ms = t.ms % 1000;
  if (ms < 0) {
    ms += 1000;
    --seconds;
  }
  // Not by strftime: it takes a lock for the time zone, and this is done a thousand times an insert.
  using namespace std::chrono;
  constexpr std::int64_t kYear1 = -62'135'596'800;
  if (seconds < kYear1) return "0001-01-01 00:00:00.000";  // no column can store it
  if (t >= kYear10000) return "9999-12-31 23:59:59.999";
  const auto day = floor<days>(sys_seconds{std::chrono::seconds{seconds}});
  const year_month_day date{day};
  const int year = static_cast<int>(date.year());
  std::string out = "0000-00-00 00:00:00.000";
  const auto put = [&](std::size_t at, std::size_t digits, std::int64_t value) {
    for (std::size_t i = digits; i-- > 0; value /= 10) out[at + i] = static_cast<char>('0' + value % 10);
  };
  const std::int64_t within = seconds - day.time_since_epoch() / std::chrono::seconds{1};
  put(0, 4, year);
  put(5, 2, static_cast<unsigned>(date.month()));
  put(8, 2, static_cast<unsigned>(date.day()));
  put(11, 2, within / 3600);
  put(14, 2, within / 60 % 60);
  put(17, 2, within % 60);
  put(20, 3, ms);
  return out;
}

}  // namespace rung
