#include "src/core/base/rfc3339.h"

#include <chrono>

namespace rung {
namespace {

// shortened: as people write it on a command line (read_instant()).
enum class Form { full, shortened };

// Takes the next `digits` digits off the front.
std::optional<int> next_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool skip_one(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Ms> next_date(std::string_view& text) {
  const auto year = next_digits(text, 4);
  if (!year || !skip_one(text, "-")) return std::nullopt;
  const auto month = next_digits(text, 2);
  if (!month || !skip_one(text, "-")) return std::nullopt;
  const auto day = next_digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day ymd{std::chrono::year{*year},
                                        std::chrono::month{static_cast<unsigned>(*month)},
                                        std::chrono::day{static_cast<unsigned>(*day)}};
  if (!ymd.ok()) return std::nullopt;
  return std::chrono::duration_cast<Ms>(std::chrono::sys_days{ymd}.time_since_epoch());
}

std::optional<Ms> next_time(std::string_view& text, Form form) {
  const auto hour = next_digits(text, 2);
  if (!hour || *hour > 23 || !skip_one(text, ":")) return std::nullopt;
  const auto minute = next_digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  Ms time = std::chrono::hours{*hour} + std::chrono::minutes{*minute};
  if (!skip_one(text, ":")) return form == Form::shortened ? std::optional(time) : std::nullopt;
  const auto second = next_digits(text, 2);
  if (!second || *second > 60) return std::nullopt;  // 60: a leap second
  time += std::chrono::seconds{*second};
  if (!skip_one(text, ".")) return time;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  for (int worth = 100; !text.empty() && text.front() >= '0' && text.front() <= '9'; worth /= 10) {
    time += Ms{worth * (text.front() - '0')};
    text.remove_prefix(1);
  }
  return time;
}

std::optional<Ms> next_offset(std::string_view& text, Form form) {
  if (skip_one(text, "Zz") || (form == Form::shortened && text.empty())) return Ms{0};
  const bool west = !text.empty() && text.front() == '-';
  if (!skip_one(text, "+-")) return std::nullopt;
  const auto hour = next_digits(text, 2);
  if (!skip_one(text, ":") && form == Form::full) return std::nullopt;
  const auto minute = next_digits(text, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59) return std::nullopt;
  const Ms away = std::chrono::hours{*hour} + std::chrono::minutes{*minute};
  return west ? -away : away;
}

std::optional<EpochMs> read(std::string_view text, Form form) {
  const auto day = next_date(text);
  if (!day) return std::nullopt;
  if (form == Form::full && *day < Ms{0}) return std::nullopt;
  const EpochMs midnight{day->count()};
  if (form == Form::shortened && text.empty()) return midnight;
  if (!skip_one(text, "Tt ")) return std::nullopt;
  const auto time = next_time(text, form);
  if (!time) return std::nullopt;
  const auto away = next_offset(text, form);
  if (!away || !text.empty()) return std::nullopt;
  return midnight + *time - *away;
}

}  // namespace

std::string to_rfc3339(EpochMs t) {
  std::string text = format_utc(t) + "Z";
  if (text.size() > 10) text[10] = 'T';
  return text;
}

std::optional<EpochMs> from_rfc3339(std::string_view text) {
  const auto t = read(text, Form::full);
  if (!t || t->ms < 0 || *t >= kYear10000) return std::nullopt;
  return t;
}

std::optional<EpochMs> read_instant(std::string_view text) { return read(text, Form::shortened); }

std::optional<Ms> read_time_of_day(std::string_view text) {
  const auto time = next_time(text, Form::shortened);
  return text.empty() ? time : std::nullopt;
}

}  // namespace rung
