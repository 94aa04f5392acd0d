#include <gmock/gmock.h>

#include "src/cli/shared/command.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr EpochMs kNow{1'795'280'700'123};  // 2026-11-21T17:05:00.123Z

std::int64_t when(std::string_view text, Is is = Is::past) {
  const auto t = parse_time(is, text, kNow);
  return t ? t->ms - kNow.ms : -1;
}

TEST(When, Instants) {
  EXPECT_EQ(when("2026-11-21T17:05:00.123Z"), 0);
  EXPECT_EQ(when("2026-11-21T17:05:00.123999z"), 0);
  EXPECT_EQ(when("2026-11-21 17:05:00.123"), 0);
  EXPECT_EQ(when("2026-11-21T18:05:00.123+01:00"), 0);
  EXPECT_EQ(when("2026-11-21T12:35:00.123-0430"), 0);
  EXPECT_EQ(when("2026-11-21T17:05:00Z"), -123);
  EXPECT_EQ(when("2026-11-21T17:05"), -123);
  EXPECT_EQ(when("2026-11-21T17:05:00.5Z"), 377);
  EXPECT_EQ(when("2026-11-21"), -((17 * 60 + 5) * 60'000 + 123));
  EXPECT_EQ(when("2024-02-29") % 1000, -123);
}

TEST(When, DurationsPointWhereTheFlagDoesOrTheSignSays) {
  EXPECT_EQ(when("1h", Is::past), -3'600'000);
  EXPECT_EQ(when("1h", Is::future), 3'600'000);
  EXPECT_EQ(when("-10m", Is::future), -600'000);
  EXPECT_EQ(when("+10m", Is::past), 600'000);
  EXPECT_EQ(when("now"), 0);
}

TEST(When, RefusesTheRestAndSaysWhatWouldBeRight) {
  for (const char* text : {"", "yesterday", "2026-13-01", "2025-02-29", "2026-11-21T24:00",
                           "2026-11-21T17:60", "2026-11-21T17:05:00.Z", "2026-11-21T17:05:00+1",
                           "2026-11-21X", "2026-11-21T17:05:00Zz", "1.5h", "--1h", "10"}) {
    const auto t = parse_time(Is::past, text, kNow);
    ASSERT_FALSE(t) << text;
    EXPECT_THAT(t.error(), HasSubstr("2026-11-21T17:05:00Z"));
  }
}

class Until : public testing::Test {
 protected:
  // Without the system's zones: an hour ahead of UTC, two from March 28 to October 31.
  Until() { zone("CET-1CEST,M3.5.0,M10.5.0/3"); }
  ~Until() override { zone(nullptr); }
  static void zone(const char* rule) {
    rule == nullptr ? unsetenv("TZ") : setenv("TZ", rule, 1);
    tzset();
  }
  static std::string until(std::string_view text, std::string_view now = "2026-11-21T17:05:00.123Z") {
    const auto at = parse_time(Is::until, text, *from_rfc3339(now));
    return at ? to_rfc3339(*at) : at.error();
  }
};

TEST_F(Until, ATimeOfDayIsTheNextOneOfThisMachine) {
  EXPECT_EQ(until("08:00"), "2026-11-22T07:00:00.000Z");
  EXPECT_EQ(until("18:06"), "2026-11-21T17:06:00.000Z") << "today";
  EXPECT_EQ(until("18:05"), "2026-11-22T17:05:00.000Z") << "this minute has begun";
  EXPECT_EQ(until("18:05:00.124"), "2026-11-21T17:05:00.124Z");
  EXPECT_EQ(until("00:00"), "2026-11-21T23:00:00.000Z");
  EXPECT_EQ(until("00:30", "2026-11-30T23:15:00Z"), "2026-11-30T23:30:00.000Z")
      << "already the next day here";
  EXPECT_EQ(until("08:00", "2026-12-31T12:00:00Z"), "2027-01-01T07:00:00.000Z");
}

TEST_F(Until, TheDayMayHave23Or25Hours) {
  EXPECT_EQ(until("08:00", "2027-03-27T12:00:00Z"), "2027-03-28T06:00:00.000Z");
  EXPECT_EQ(until("08:00", "2026-10-24T12:00:00Z"), "2026-10-25T07:00:00.000Z");
}

TEST_F(Until, OrATimeButNoDuration) {
  EXPECT_EQ(until("2026-11-23T08:00:00Z"), "2026-11-23T08:00:00.000Z");
  EXPECT_EQ(until("2026-11-23T08:00:00+01:00"), "2026-11-23T07:00:00.000Z");
  for (const char* text : {"", "8:00", "24:00", "08:60", "08:00Z", "2h", "now", "tomorrow"})
    EXPECT_THAT(until(text), HasSubstr("08:00, by this machine's clock")) << text;
}

TEST(When, RoundTrip) {
  EXPECT_EQ(to_rfc3339(kNow), "2026-11-21T17:05:00.123Z");
  EXPECT_EQ(*parse_time(Is::past, to_rfc3339(kNow), {}), kNow);
}

}  // namespace
}  // namespace rung::cli
