#include "src/core/rules/time_window.h"

#include <date/tz.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "src/core/base/result.h"

namespace rung {

namespace week {
// Of the local week, in ms since Monday 00:00. REQUIRES: begin < end <= a week.
struct Span {
  std::int64_t begin = 0, end = 0;
};
}  // namespace week

namespace {

constexpr std::int64_t kMinute = 60'000, kDay = 24 * 60 * kMinute, kWeek = 7 * kDay;
constexpr std::int64_t kEpochInWeek = 3 * kDay;  // 1970 began on a Thursday; a week begins on Monday
constexpr Ms kFarthestChange{8 * kDay};

constexpr std::array<std::string_view, 7> kWeekdays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                       "Friday", "Saturday", "Sunday"};
constexpr std::string_view kLocal =
    "localtime";  // instances on machines with different settings would differ
constexpr std::string_view kExample = "write e.g. \"Mon-Fri 08:00-18:00\"";

tl::unexpected<Error> window_error(std::string_view what, std::string_view why) {
  return permanent("\"" + std::string(what) + "\": " + std::string(why));
}

char small_letter(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, small_letter, small_letter);
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
    if (text.size() >= kShortest && same_letters(text, name.substr(0, text.size())))
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

std::string two_digits(int number) { return (number < 10 ? "0" : "") + std::to_string(number); }
std::string clock_text(int minutes) { return two_digits(minutes / 60) + ":" + two_digits(minutes % 60); }

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
  constexpr int kMidnight = 24 * 60;
  if (*begin == *end)
    return window_error(entry, "never opens: it ends when it begins; for the whole day write 00:00-24:00");
  if (*begin == kMidnight)
    return window_error(entry, "24:00 is only an end: write 00:00, and the day that begins then");
  out.begin = *begin;
  out.end = *end;
  out.text.append(out.text.empty() ? "" : " ").append(clock_text(*begin) + "-" + clock_text(*end));
  return out;
}

void add_spans(const AllowedTimes& times, std::vector<week::Span>& out) {
  for (std::size_t day = 0; day < times.days.size(); ++day) {
    if (!times.days[day]) continue;
    const std::int64_t midnight = static_cast<std::int64_t>(day) * kDay;
    const std::int64_t begin = midnight + times.begin * kMinute;
    const std::int64_t end = midnight + times.end * kMinute + (times.end <= times.begin ? kDay : 0);
    out.push_back({begin, std::min(end, kWeek)});
    if (end > kWeek) out.push_back({0, end - kWeek});
  }
}

// Sorted; those that overlap or adjoin become one.
std::vector<week::Span> merged(std::vector<week::Span> spans) {
  std::ranges::sort(spans, {}, &week::Span::begin);
  std::vector<week::Span> out;
  for (const week::Span& span : spans) {
    if (!out.empty() && span.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
  }
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

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

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

struct TimeWindow::Spans {
  // A time with one offset from UTC: local = UTC + offset.
  struct Stretch {
    std::int64_t offset = 0;
    EpochMs end;
  };

  const date::time_zone* zone = nullptr;  // of the library, for the life of the process
  std::vector<week::Span> open;
  std::vector<std::int64_t> changes;  // where the week opens or closes, ascending; empty = always open
  std::int64_t open_in_week = 0;

  Spans(const date::time_zone* of, std::vector<week::Span> spans) : zone(of), open(std::move(spans)) {
    // Open on Sunday at 24:00 and on Monday at 00:00: it does not change there.
    const bool around = open.front().begin == 0 && open.back().end == kWeek;
    for (const week::Span& span : open) {
      open_in_week += span.end - span.begin;
      if (!around || span.begin != 0) changes.push_back(span.begin);
      if (!around || span.end != kWeek) changes.push_back(span.end % kWeek);
    }
    std::ranges::sort(changes);
  }

  Stretch stretch(EpochMs at) const {
    const auto info = zone->get_info(date::sys_seconds{std::chrono::seconds{floor_div(at.ms, 1000)}});
    const EpochMs end{std::chrono::duration_cast<Ms>(info.end.time_since_epoch()).count()};
    // After the last one that the database knows.
    if (end <= at) return {Ms{info.offset}.count(), {std::numeric_limits<std::int64_t>::max()}};
    return {Ms{info.offset}.count(), end};
  }

  static std::int64_t in_week(std::int64_t local) {
    return local + kEpochInWeek - floor_div(local + kEpochInWeek, kWeek) * kWeek;
  }

  bool is_open_local(std::int64_t local) const {
    const std::int64_t phase = in_week(local);
    return std::ranges::any_of(
        open, [&](const week::Span& span) { return phase >= span.begin && phase < span.end; });
  }

  // Open time since a fixed Monday.
  std::int64_t open_until(std::int64_t local) const {
    const std::int64_t phase = in_week(local);
    std::int64_t total = floor_div(local + kEpochInWeek, kWeek) * open_in_week;
    for (const week::Span& span : open) total += std::clamp(phase, span.begin, span.end) - span.begin;
    return total;
  }

  // The first change after `local`. REQUIRES: changes is not empty.
  std::int64_t next_local(std::int64_t local) const {
    RUNG_REQUIRE(!changes.empty());
    const std::int64_t phase = in_week(local);
    const auto it = std::ranges::upper_bound(changes, phase);
    return local - phase + (it != changes.end() ? *it : changes.front() + kWeek);
  }
};

Result<TimeWindow> TimeWindow::parse(const std::vector<std::string>& allow, const std::string& zone) {
  if (allow.empty())
    return permanent("the list is empty, so the window never opens: " + std::string(kExample));
  TimeWindow window;
  std::vector<week::Span> spans;
  for (const std::string& entry : allow) {
    auto times = read_allowed(entry);
    if (!times) return tl::unexpected(times.error());
    add_spans(*times, spans);
    window.allow_.push_back(std::move(times->text));
  }
  const auto found = find_zone(zone);
  if (!found) return tl::unexpected(found.error());
  window.zone_ = zone;
  window.spans_ = std::make_shared<const Spans>(*found, merged(std::move(spans)));
  return window;
}

bool TimeWindow::is_open(EpochMs at) const {
  return spans_->is_open_local(at.ms + spans_->stretch(at).offset);
}

EpochMs TimeWindow::next_change(EpochMs at) const {
  const EpochMs farthest = at + kFarthestChange;
  if (spans_->changes.empty()) return farthest;
  Spans::Stretch now = spans_->stretch(at);
  const bool open = spans_->is_open_local(at.ms + now.offset);
  for (EpochMs from = at; from < farthest;) {
    const EpochMs change{spans_->next_local(from.ms + now.offset) - now.offset};
    if (change < now.end) return std::min(change, farthest);
    // The clock is put forward or back, and may thereby enter or leave an open time.
    from = now.end;
    if (from >= farthest) break;
    now = spans_->stretch(from);
    if (spans_->is_open_local(from.ms + now.offset) != open) return from;
  }
  return farthest;
}

Ms TimeWindow::closed_between(EpochMs from, EpochMs to) const {
  std::int64_t closed = 0;
  while (from < to) {
    const Spans::Stretch part = spans_->stretch(from);
    const EpochMs until = std::min(part.end, to);
    closed += (until - from).count() -
              (spans_->open_until(until.ms + part.offset) - spans_->open_until(from.ms + part.offset));
    from = until;
  }
  return Ms{closed};
}

std::string TimeWindow::describe() const {
  std::string out;
  for (const std::string& entry : allow_) out.append(out.empty() ? "" : ", ").append(entry);
  return out + " " + zone_;
}

}  // namespace rung
