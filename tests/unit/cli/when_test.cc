#include "src/cli/when.h"

#include <gmock/gmock.h>

#include "src/core/rfc3339.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr EpochMs kNow{1'795'280'700'123};  // 2026-11-21T17:05:00.123Z

std::int64_t when(std::string_view text, Direction direction = Direction::past) {
  const auto t = parse_when(text, kNow, direction);
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
  EXPECT_EQ(when("1h", Direction::past), -3'600'000);
  EXPECT_EQ(when("1h", Direction::future), 3'600'000);
  EXPECT_EQ(when("-10m", Direction::future), -600'000);
  EXPECT_EQ(when("+10m", Direction::past), 600'000);
  EXPECT_EQ(when("now"), 0);
}

TEST(When, RefusesTheRestAndSaysWhatWouldBeRight) {
  for (const char* text : {"", "yesterday", "2026-13-01", "2025-02-29", "2026-11-21T24:00",
                           "2026-11-21T17:60", "2026-11-21T17:05:00.Z", "2026-11-21T17:05:00+1",
                           "2026-11-21X", "2026-11-21T17:05:00Zz", "1.5h", "--1h", "10"}) {
    const auto t = parse_when(text, kNow, Direction::past);
    ASSERT_FALSE(t) << text;
    EXPECT_THAT(t.error(), HasSubstr("2026-11-21T17:05:00Z"));
  }
}

TEST(When, RoundTrip) {
  EXPECT_EQ(to_rfc3339(kNow), "2026-11-21T17:05:00.123Z");
  EXPECT_EQ(*parse_when(to_rfc3339(kNow), {}, Direction::past), kNow);
}

}  // namespace
}  // namespace rung::cli
