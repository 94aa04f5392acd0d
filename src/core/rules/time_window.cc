#include "src/core/rules/time_window.h"

#include <date/tz.h>
#include <fmt/ranges.h>
#include <re2/re2.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "src/core/base/result.h"

namespace rung {

namespace {

constexpr std::int64_t kMinute = 60'000, kDay = 24 * 60 * kMinute, kWeek = 7 * kDay;
constexpr std::int64_t kEpochInWeek = 3 * kDay;  // 1970 began on a Thursday; a week begins on Monday
constexpr int kMinutesOfDay = 24 * 60, kMinutesOfWeek = 7 * kMinutesOfDay;
constexpr Ms kFarthestChange{8 * kDay};

constexpr std::array<std::string_view, 7> kWeekdays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                       "Friday", "Saturday", "Sunday"};
constexpr std::string_view kLocal =
    "localtime";  // instances on machines with different settings would differ
constexpr std::string_view kExample = "write e.g. \"Mon-Fri 08:00-18:00\"";

tl::unexpected<Error> window_error(std::string_view what, std::string_view why) {
  return permanent("\"" + std::string(what) + "\": " + std::string(why));
}

// Without spaces at its ends.
std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// What is before and after the first `mark`, without spaces around it; nullopt if there is none.
std::optional<std::pair<std::string_view, std::string_view>> split(std::string_view text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair{trimmed(text.substr(0, at)), trimmed(text.substr(at + 1))};
}

// 0 = Monday. "Mon" and any longer beginning of "Monday".
std::optional<int> to_weekday(std::string_view text) {
  constexpr std::size_t kShortest = 3;
  for (std::size_t day = 0; day < kWeekdays.size(); ++day) {
    const std::string_view name = kWeekdays[day];
    if (text.size() >= kShortest && text.size() <= name.size() &&
        strncasecmp(text.data(), name.data(), text.size()) == 0)
      return static_cast<int>(day);
  }
  return std::nullopt;
}

// "08:00" in minutes of the day; nullopt if it is none.
std::optional<int> to_minutes(std::string_view text) {
  int hour = 0, minute = 0;
  if (!re2::RE2::FullMatch({text.data(), text.size()}, R"((\d{1,2}):(\d\d))", &hour, &minute) ||
      minute > 59 || hour > 24 || (hour == 24 && minute > 0))
    return std::nullopt;
  return hour * 60 + minute;
}

// One of `allow`.
struct AllowedTimes {
  std::array<bool, 7> days{};
  int begin = 0, end = 0;  // minutes of the day; end <= begin: of the next day
  std::string text;        // as describe() has it: "Mon-Fri 08:00-18:00"
};

// "Mon-Fri,Sun"; "" = every day.
Result<void> read_days(std::string_view days, std::string_view entry, AllowedTimes& out) {
  if (days.empty()) out.days.fill(true);
  for (std::string_view rest = days; !rest.empty();) {
    const auto comma = split(rest, ',');
    const std::string_view part = comma ? comma->first : rest;
    rest = comma ? comma->second : "";
    const auto range = split(part, '-').value_or(std::pair{part, part});
    const auto first = to_weekday(range.first), last = to_weekday(range.second);
    if (!first || !last || (comma && rest.empty())) {
      const std::string unknown(!first ? range.first : !last ? range.second : "");
      return window_error(entry, "unknown day \"" + unknown + "\": write days as Mon-Fri or Sat,Sun");
    }
    for (int day = *first;; day = (day + 1) % 7) {
      out.days[static_cast<std::size_t>(day)] = true;
      if (day == *last) break;
    }
    const auto name = [](int day) { return kWeekdays[static_cast<std::size_t>(day)].substr(0, 3); };
    out.text.append(out.text.empty() ? "" : ",").append(name(*first));
    if (*first != *last) out.text.append("-").append(name(*last));
  }
  return {};
}

Result<AllowedTimes> read_allowed(std::string_view entry) {
  const std::string_view text = trimmed(entry);
  // The times begin with the first digit.
  const auto digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos)
    return window_error(entry, "the times are missing: " + std::string(kExample));
  if (digit > 0 && text[digit - 1] != ' ') return window_error(entry, kExample);
  AllowedTimes out;
  if (auto days = read_days(trimmed(text.substr(0, digit)), entry, out); !days)
    return tl::unexpected(days.error());
  const auto times = split(text.substr(digit), '-');
  if (!times) return window_error(entry, "the end is missing: " + std::string(kExample));
  const auto begin = to_minutes(times->first), end = to_minutes(times->second);
  if (!begin || !end)
    return window_error(entry, "\"" + std::string(!begin ? times->first : times->second) +
                                   "\" is not a time from 00:00 to 24:00");
  if (*begin == *end)
    return window_error(entry, "never opens: it ends when it begins; for the whole day write 00:00-24:00");
  if (*begin == kMinutesOfDay)
    return window_error(entry, "24:00 is only an end: write 00:00, and the day that begins then");
  out.begin = *begin;
  out.end = *end;
  out.text += fmt::format("{}{:02}:{:02}-{:02}:{:02}", out.text.empty() ? "" : " ", *begin / 60, *begin % 60,
                          *end / 60, *end % 60);
  return out;
}

Result<const date::time_zone*> find_zone(const std::string& wanted) {
  try {
    const date::tzdb& all = date::get_tzdb();
    const auto it = std::ranges::find_if(all.zones, [&](const auto& zone) { return zone.name() == wanted; });
    if (it == all.zones.end() || wanted == kLocal)
      return window_error(wanted, all.zones.empty()
                                      ? "unknown time zone: this system has none: install the package tzdata"
                                      : "unknown time zone: write e.g. Europe/Berlin or UTC");
    (void)it->get_info(date::sys_seconds{});  // reads its file, which fails if it is broken
    return &*it;
  } catch (const std::exception& e) {
    return permanent("the time zone " + wanted +
                     " cannot be read from the system's database (tzdata): " + std::string(e.what()));
  }
}

}  // namespace

std::vector<std::string> time_zones() try {
  std::vector<std::string> names;
  for (const date::time_zone& zone : date::get_tzdb().zones) {
    if (zone.name() != kLocal) names.push_back(zone.name());
  }
  return names;
} catch (const std::exception&) {
  return {};
}

// The open minutes of the local week, from Monday 00:00.
struct TimeWindow::Week {
  // A time with one offset from UTC: local = UTC + offset.
  struct Stretch {
    std::int64_t offset = 0;
    EpochMs end;
  };

  const date::time_zone* zone = nullptr;  // of the library, for the life of the process
  std::bitset<kMinutesOfWeek> open;

  void add(const AllowedTimes& times) {
    for (int day = 0; day < 7; ++day) {
      if (!times.days[static_cast<std::size_t>(day)]) continue;
      const int end = times.end + (times.end <= times.begin ? kMinutesOfDay : 0);
      for (int minute = times.begin; minute < end; ++minute)
        open.set(static_cast<std::size_t>((day * kMinutesOfDay + minute) % kMinutesOfWeek));
    }
  }

  Stretch stretch(EpochMs at) const {
    const auto info = zone->get_info(date::sys_seconds{std::chrono::floor<std::chrono::seconds>(Ms{at.ms})});
    const EpochMs end{std::chrono::duration_cast<Ms>(info.end.time_since_epoch()).count()};
    // After the last one that the database knows.
    if (end <= at) return {Ms{info.offset}.count(), {std::numeric_limits<std::int64_t>::max()}};
    return {Ms{info.offset}.count(), end};
  }

  static std::int64_t week_of(std::int64_t local) {
    return std::chrono::floor<std::chrono::weeks>(Ms{local + kEpochInWeek}).count();
  }
  static std::int64_t in_week(std::int64_t local) { return local + kEpochInWeek - week_of(local) * kWeek; }
  static std::size_t minute_of(std::int64_t local) {
    return static_cast<std::size_t>(in_week(local) / kMinute);
  }

  bool is_open_local(std::int64_t local) const { return open[minute_of(local)]; }

  // Open time since a fixed Monday.
  std::int64_t open_until(std::int64_t local) const {
    const std::size_t minute = minute_of(local);
    const auto before = static_cast<std::int64_t>((open << (open.size() - minute)).count());
    return (week_of(local) * static_cast<std::int64_t>(open.count()) + before) * kMinute +
           (open[minute] ? in_week(local) % kMinute : 0);
  }

  // The first change after `local`; none: a time farther than kFarthestChange.
  std::int64_t next_local(std::int64_t local) const {
    const std::size_t minute = minute_of(local);
    std::size_t passed = 1;
    while (passed < 2 * open.size() && open[(minute + passed) % open.size()] == open[minute]) ++passed;
    return local - in_week(local) % kMinute + static_cast<std::int64_t>(passed) * kMinute;
  }
};

Result<TimeWindow> TimeWindow::parse(const std::vector<std::string>& allow, const std::string& zone) {
  if (allow.empty())
    return permanent("the list is empty, so the window never opens: " + std::string(kExample));
  TimeWindow window;
  const auto week = std::make_shared<Week>();
  for (const std::string& entry : allow) {
    auto times = read_allowed(entry);
    if (!times) return tl::unexpected(times.error());
    week->add(*times);
    window.allow_.push_back(std::move(times->text));
  }
  const auto found = find_zone(zone);
  if (!found) return tl::unexpected(found.error());
  window.zone_ = zone;
  week->zone = *found;
  window.week_ = week;
  return window;
}

bool TimeWindow::is_open(EpochMs at) const { return week_->is_open_local(at.ms + week_->stretch(at).offset); }

EpochMs TimeWindow::next_change(EpochMs at) const {
  const EpochMs farthest = at + kFarthestChange;
  Week::Stretch now = week_->stretch(at);
  const bool open = week_->is_open_local(at.ms + now.offset);
  for (EpochMs from = at; from < farthest;) {
    const EpochMs change{week_->next_local(from.ms + now.offset) - now.offset};
    if (change < now.end) return std::min(change, farthest);
    // The clock is put forward or back, and may thereby enter or leave an open time.
    from = now.end;
    if (from >= farthest) break;
    now = week_->stretch(from);
    if (week_->is_open_local(from.ms + now.offset) != open) return from;
  }
  return farthest;
}

Ms TimeWindow::closed_between(EpochMs from, EpochMs to) const {
  std::int64_t closed = 0;
  while (from < to) {
    const Week::Stretch part = week_->stretch(from);
    const EpochMs until = std::min(part.end, to);
    closed += (until - from).count() -
              (week_->open_until(until.ms + part.offset) - week_->open_until(from.ms + part.offset));
    from = until;
  }
  return Ms{closed};
}

std::string TimeWindow::describe() const { return fmt::format("{} {}", fmt::join(allow_, ", "), zone_); }

}  // namespace rung
