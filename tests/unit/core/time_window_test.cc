// Windows of the week, most of all where a zone's clock is changed.
#include "src/core/rules/time_window.h"

#include <gtest/gtest.h>

#include <ctime>

namespace rung {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr Ms kMinuteStep{minutes{1}};

// "2026-03-29T02:00" in UTC.
EpochMs utc(const std::string& text) {
  std::tm tm{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M", &tm), nullptr) << text;
  return {static_cast<std::int64_t>(timegm(&tm)) * 1000};
}

std::string text_of(EpochMs t) { return format_utc(t).substr(0, 16); }

TimeWindow window(const std::vector<std::string>& allow, const std::string& zone = "UTC") {
  auto parsed = TimeWindow::parse(allow, zone);
  EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message);
  return *parsed;
}

std::string error_of(const std::vector<std::string>& allow, const std::string& zone = "UTC") {
  const auto parsed = TimeWindow::parse(allow, zone);
  return parsed ? "none: " + parsed->describe() : parsed.error().message;
}

// The times in [from, to) at which it opens (+) and closes (-), found minute by minute.
std::vector<std::string> changes_of(const TimeWindow& window, EpochMs from, EpochMs to) {
  std::vector<std::string> out;
  bool before = window.is_open(from - kMinuteStep);
  for (EpochMs t = from; t < to; t = t + kMinuteStep) {
    const bool now = window.is_open(t);
    if (now != before) out.push_back((now ? "+" : "-") + text_of(t));
    before = now;
  }
  return out;
}
using Changes = std::vector<std::string>;

TEST(TimeWindow, TheEndsAreExactToTheMillisecond) {
  const TimeWindow work = window({"08:00-18:00"});
  const EpochMs begin = utc("2026-11-23T08:00"), end = utc("2026-11-23T18:00");
  EXPECT_FALSE(work.is_open(begin - Ms{1}));
  EXPECT_TRUE(work.is_open(begin));
  EXPECT_TRUE(work.is_open(end - Ms{1}));
  EXPECT_FALSE(work.is_open(end));
  EXPECT_EQ(work.next_change(begin - Ms{1}), begin);
  EXPECT_EQ(work.next_change(begin), end);
  EXPECT_EQ(work.closed_between(begin - Ms{3}, begin + Ms{5}), Ms{3});
  EXPECT_EQ(work.closed_between(end - Ms{3}, end + Ms{5}), Ms{5});
  EXPECT_EQ(work.closed_between(end, end), Ms{0});
  EXPECT_EQ(work.closed_between(end + Ms{5}, end), Ms{0});
}

TEST(TimeWindow, DaysAreRangesAndLists) {
  const auto open_days = [](const std::string& days) {
    const TimeWindow noon = window({days + " 11:00-13:00"});
    std::string out;
    for (int day = 0; day < 7; ++day)
      out += noon.is_open(utc("2026-11-23T12:00") + hours{24 * day}) ? "MTWTFSS"[day] : '-';
    return out;
  };
  EXPECT_EQ(open_days("Mon-Fri"), "MTWTF--");
  EXPECT_EQ(open_days("Sat,Sun"), "-----SS");
  EXPECT_EQ(open_days("Mon-Thu,Sun"), "MTWT--S");
  EXPECT_EQ(open_days("Fri-Mon"), "M---FSS");
  EXPECT_EQ(open_days("Sun-Mon"), "M-----S");
  EXPECT_EQ(open_days("Mon-Sun"), "MTWTFSS");
  EXPECT_EQ(open_days("Wed"), "--W----");
  EXPECT_EQ(open_days("Wed-Wed"), "--W----");
  EXPECT_EQ(open_days("monday - FRIDAY"), "MTWTF--");
  EXPECT_EQ(open_days("Tues, thurs,SAT"), "-T-T-S-");
  EXPECT_EQ(open_days(""), "MTWTFSS");
}

TEST(TimeWindow, NightsEndOnTheNextDay) {
  const TimeWindow night = window({"Sun 22:00-06:00"});  // over the end of the week
  EXPECT_FALSE(night.is_open(utc("2026-11-22T21:59")));
  EXPECT_TRUE(night.is_open(utc("2026-11-22T22:00")));
  EXPECT_TRUE(night.is_open(utc("2026-11-23T05:59")));
  EXPECT_FALSE(night.is_open(utc("2026-11-23T06:00")));
  EXPECT_EQ(night.next_change(utc("2026-11-22T22:00")), utc("2026-11-23T06:00"));
  EXPECT_EQ(night.next_change(utc("2026-11-23T06:00")), utc("2026-11-29T22:00"));
  const TimeWindow until_midnight = window({"22:00-00:00"});
  EXPECT_EQ(changes_of(until_midnight, utc("2026-11-22T12:00"), utc("2026-11-23T12:00")),
            (Changes{"+2026-11-22 22:00", "-2026-11-23 00:00"}));
  EXPECT_EQ(changes_of(window({"22:00-24:00"}), utc("2026-11-22T12:00"), utc("2026-11-23T12:00")),
            (Changes{"+2026-11-22 22:00", "-2026-11-23 00:00"}));
}

TEST(TimeWindow, TheSkippedHour) {  // Berlin, 2026-03-29: after 02:00, which is 01:00 UTC, comes 03:00
  const EpochMs from = utc("2026-03-28T12:00"), to = utc("2026-03-29T12:00");
  const auto berlin = [&](const std::string& times) {
    return changes_of(window({times}, "Europe/Berlin"), from, to);
  };
  // Begins in it, so at the change; ends in it, so at the change.
  EXPECT_EQ(berlin("02:30-04:00"), (Changes{"+2026-03-29 01:00", "-2026-03-29 02:00"}));
  EXPECT_EQ(berlin("01:00-02:30"), (Changes{"+2026-03-29 00:00", "-2026-03-29 01:00"}));
  EXPECT_EQ(berlin("02:15-02:45"), Changes{});
  EXPECT_EQ(berlin("02:00-03:00"), Changes{});
  EXPECT_EQ(berlin("03:00-04:00"), (Changes{"+2026-03-29 01:00", "-2026-03-29 02:00"}));
  // A night of 7 hours.
  EXPECT_EQ(berlin("22:00-06:00"), (Changes{"+2026-03-28 21:00", "-2026-03-29 04:00"}));
}

TEST(TimeWindow, TheRepeatedHour) {  // Berlin, 2026-10-25: at 03:00, 01:00 UTC, it is 02:00 again
  const EpochMs from = utc("2026-10-24T12:00"), to = utc("2026-10-25T12:00");
  const auto berlin = [&](const std::string& times) {
    return changes_of(window({times}, "Europe/Berlin"), from, to);
  };
  EXPECT_EQ(berlin("02:15-02:45"),
            (Changes{"+2026-10-25 00:15", "-2026-10-25 00:45", "+2026-10-25 01:15", "-2026-10-25 01:45"}));
  // Twice 02:30: what the clock shows counts.
  EXPECT_EQ(berlin("01:30-02:30"),
            (Changes{"+2026-10-24 23:30", "-2026-10-25 00:30", "+2026-10-25 01:00", "-2026-10-25 01:30"}));
  EXPECT_EQ(berlin("02:30-04:00"),
            (Changes{"+2026-10-25 00:30", "-2026-10-25 01:00", "+2026-10-25 01:30", "-2026-10-25 03:00"}));
  EXPECT_EQ(berlin("02:00-03:00"), (Changes{"+2026-10-25 00:00", "-2026-10-25 02:00"}));
  EXPECT_EQ(berlin("03:00-04:00"), (Changes{"+2026-10-25 02:00", "-2026-10-25 03:00"}));
  // A night of 9 hours.
  EXPECT_EQ(berlin("22:00-06:00"), (Changes{"+2026-10-24 20:00", "-2026-10-25 05:00"}));
}

struct Combination {
  std::vector<std::string> allow;
  std::string zone, from, to;
};

// Weeks with a change of the clock, and one without.
std::vector<Combination> combinations() {
  const std::vector<std::vector<std::string>> all = {
      {"Mon-Fri 08:00-18:00"},
      {"02:15-02:45"},
      {"Sun 02:15-02:45"},  // not on the day whose hour is skipped
      {"22:00-06:00"},
      {"Sat 20:00-02:30", "Sun 02:30-03:30"},
      {"Fri-Mon 01:30-02:00", "Sun 02:00-02:30", "Wed 00:00-24:00"},
      {"Sun 12:00-24:00", "Mon 00:00-03:17"},
      {"00:00-24:00"},
  };
  std::vector<Combination> out;
  for (const auto& allow : all) {
    for (const auto& [zone, from, to] : std::vector<std::tuple<std::string, std::string, std::string>>{
             {"Europe/Berlin", "2026-03-25T13:07", "2026-04-01T09:31"},
             {"Europe/Berlin", "2026-10-21T13:07", "2026-10-28T09:31"},
             {"America/New_York", "2026-03-05T13:07", "2026-03-10T09:31"},
             {"Australia/Lord_Howe", "2026-04-01T13:07", "2026-04-07T09:31"},
             {"Australia/Lord_Howe", "2026-10-01T13:07", "2026-10-06T09:31"},
             {"Asia/Kolkata", "2026-03-25T13:07", "2026-04-01T09:31"}})
      out.push_back({allow, zone, from, to});
  }
  return out;
}

TEST(TimeWindow, ClosedTimeIsTheSumOfClosedMinutes) {
  for (const Combination& one : combinations()) {
    const TimeWindow tested = window(one.allow, one.zone);
    const EpochMs from = utc(one.from), to = utc(one.to);
    Ms closed{0};
    for (EpochMs t = from; t < to; t = t + kMinuteStep) {
      if (!tested.is_open(t)) closed += kMinuteStep;
    }
    EXPECT_EQ(tested.closed_between(from, to).count(), closed.count()) << tested.describe() << one.from;
  }
}

TEST(TimeWindow, NextChangeIsTheFirstMinuteThatDiffers) {
  for (const Combination& one : combinations()) {
    const TimeWindow tested = window(one.allow, one.zone);
    const EpochMs from = utc(one.from), farthest = from + hours{8 * 24};
    // From the end, so that each minute's expected change is known from the one after it.
    EpochMs next = farthest + hours{24};
    bool open = tested.is_open(next);
    for (EpochMs t = next - kMinuteStep; t >= from; t = t - kMinuteStep) {
      const bool now = tested.is_open(t);
      if (now != open) next = t + kMinuteStep;
      open = now;
      if (t > from + hours{24}) continue;
      ASSERT_EQ(text_of(tested.next_change(t)), text_of(std::min(next, t + hours{8 * 24})))
          << tested.describe() << " at " << text_of(t);
    }
  }
}

TEST(TimeWindow, PeopleReadIt) {
  EXPECT_EQ(window({"Mon-Fri 08:00-18:00"}, "Europe/Berlin").describe(), "Mon-Fri 08:00-18:00 Europe/Berlin");
  EXPECT_EQ(window({" friday-MON ,wed  8:00 - 18:30 ", "22:00-06:00"}).describe(),
            "Fri-Mon,Wed 08:00-18:30, 22:00-06:00 UTC");
  EXPECT_EQ(window({"mon 8:00-9:00"}), window({"Mon 08:00-09:00"}));
  EXPECT_FALSE(window({"mon 8:00-9:00"}) == window({"Mon 08:00-09:00"}, "Europe/Berlin"));
}

TEST(TimeWindow, ErrorsSayWhatWouldBeRight) {
  EXPECT_EQ(error_of({}), "the list is empty, so the window never opens: write e.g. \"Mon-Fri 08:00-18:00\"");
  EXPECT_EQ(error_of({"08:00-08:00"}),
            "\"08:00-08:00\": never opens: it ends when it begins; for the whole day write 00:00-24:00");
  EXPECT_EQ(error_of({"Mon 08:00-18:00", "Sun 00:00-00:00"}),
            "\"Sun 00:00-00:00\": never opens: it ends when it begins; for the whole day write 00:00-24:00");
  EXPECT_EQ(error_of({"24:00-06:00"}),
            "\"24:00-06:00\": 24:00 is only an end: write 00:00, and the day that begins then");
  EXPECT_EQ(error_of({"Mon-Fri"}), "\"Mon-Fri\": the times are missing: write e.g. \"Mon-Fri 08:00-18:00\"");
  EXPECT_EQ(error_of({""}), "\"\": the times are missing: write e.g. \"Mon-Fri 08:00-18:00\"");
  EXPECT_EQ(error_of({"Mon 08:00"}), "\"Mon 08:00\": the end is missing: write e.g. \"Mon-Fri 08:00-18:00\"");
  EXPECT_EQ(error_of({"Mon-Fri08:00-18:00"}), "\"Mon-Fri08:00-18:00\": write e.g. \"Mon-Fri 08:00-18:00\"");
  EXPECT_EQ(error_of({"Mon-Fro 08:00-18:00"}),
            "\"Mon-Fro 08:00-18:00\": unknown day \"Fro\": write days as Mon-Fri or Sat,Sun");
  EXPECT_EQ(error_of({"Mo-Fr 08:00-18:00"}),
            "\"Mo-Fr 08:00-18:00\": unknown day \"Mo\": write days as Mon-Fri or Sat,Sun");
  EXPECT_EQ(error_of({"Mon, 08:00-18:00"}),
            "\"Mon, 08:00-18:00\": unknown day \"\": write days as Mon-Fri or Sat,Sun");
  for (const std::string wrong : {"25:00", "24:01", "08:60", "8", "08:0", "08:000", "008:00", ":00", "8am"}) {
    EXPECT_EQ(error_of({"07:00-" + wrong}),
              "\"07:00-" + wrong + "\": \"" + wrong + "\" is not a time from 00:00 to 24:00");
  }
  EXPECT_EQ(error_of({"08:00-18:00-19:00"}),
            "\"08:00-18:00-19:00\": \"18:00-19:00\" is not a time from 00:00 to 24:00");
}

}  // namespace
}  // namespace rung
