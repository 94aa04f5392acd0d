#include "levels/duration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/levels/seed.h"

namespace rung::levels {
namespace {

using testing::HasSubstr;

Ms parsed(std::string_view text) {
  const auto result = parse_duration(text);
  EXPECT_TRUE(result.has_value()) << text << ": " << result.error();
  return result.value_or(Ms{-1});
}

std::string refused(std::string_view text) {
  const auto result = parse_duration(text);
  EXPECT_FALSE(result.has_value()) << text;
  return result ? "" : result.error();
}

TEST(Duration, ReadsEachUnitAndTheirSums) {
  EXPECT_EQ(parsed("250ms"), Ms{250});
  EXPECT_EQ(parsed("5s"), Ms{5'000});
  EXPECT_EQ(parsed("1m"), Ms{60'000});
  EXPECT_EQ(parsed("1m30s"), Ms{90'000});
  EXPECT_EQ(parsed("90s"), Ms{90'000});
  EXPECT_EQ(parsed("1h"), Ms{3'600'000});
  EXPECT_EQ(parsed("2d"), Ms{172'800'000});
  EXPECT_EQ(parsed("1d2h3m4s5ms"), Ms{93'784'005});
  EXPECT_EQ(parsed("007s"), Ms{7'000});
  EXPECT_EQ(parsed("0"), Ms{0});
  EXPECT_EQ(parsed("0s"), Ms{0});
  EXPECT_EQ(parsed("3650d"), kLongest);
}

TEST(Duration, RefusesFractionsAndSaysWhatToWrite) {
  EXPECT_EQ(refused("1.5h"), "fractions are not supported, write 1h30m");
  EXPECT_EQ(refused("0.25d"), "fractions are not supported, write 6h");
  EXPECT_EQ(refused("1,5s"), "fractions are not supported, write 1s500ms");
  EXPECT_EQ(refused("2.0m"), "fractions are not supported, write 2m");
  EXPECT_EQ(refused("3650.0d"), "fractions are not supported, write 3650d");
  // No correction is possible: less than a millisecond, zero, an unknown unit, a fraction within a sum, or
  // longer than the maximum.
  for (const auto* text : {"0.0001s", "0.0s", "1.5x", "1h1.5m", ".5s", "1.5.5s", "9999999.5d", "1.5",
                           "3650.5d", "999999.999999d"}) {
    EXPECT_THAT(refused(text), HasSubstr("fractions are not supported, write smaller units")) << text;
  }
}

TEST(Duration, RefusesWhatIsNoDuration) {
  EXPECT_THAT(refused(""), HasSubstr("a duration is missing: a number and a unit (ms, s, m, h, d)"));
  EXPECT_EQ(refused("-5s"), "a duration cannot be negative");
  EXPECT_EQ(refused("+5s"), "a duration has no sign: remove the +");
  EXPECT_EQ(refused("5 s"), "no spaces within a duration: write 5s or 1h30m");
  EXPECT_EQ(refused("5"), "the unit is missing: write 5s, 5m, 5h or 5d");
  EXPECT_EQ(refused("1m30"), "the unit is missing: write 30s, 30m, 30h or 30d");
  EXPECT_EQ(refused("5x"), "no unit \"x\": there are ms, s, m, h, d");
  EXPECT_THAT(refused("soon"), HasSubstr("not a duration"));
  EXPECT_THAT(refused("1h-5m"), HasSubstr("not a duration"));
  EXPECT_THAT(refused("1h;"), HasSubstr("not a duration"));
}

TEST(Duration, RefusesUnitsOutOfOrderOrTwice) {
  EXPECT_EQ(refused("30m1h"), "the largest unit comes first: write 1h30m");
  EXPECT_EQ(refused("1ms1d"), "the largest unit comes first: write 1d1ms");
  EXPECT_EQ(refused("1h1h"), "a unit is repeated: write 2h");
  EXPECT_EQ(refused("1h5m2h"), "a unit is repeated: write 3h5m");
}

TEST(Duration, RefusesWhatIsTooLong) {
  const std::string answer = "longer than 3650d, the maximum";
  EXPECT_EQ(refused("3650d1ms"), answer);
  EXPECT_EQ(refused("3651d"), answer);
  EXPECT_EQ(refused("9223372036854775807ms"), answer);
  EXPECT_EQ(refused("99999999999999999999999999999999999999s"), answer);
  EXPECT_EQ(refused("3650d3650d3650d"), answer);
}

TEST(Duration, Formats) {
  EXPECT_EQ(format_duration(Ms{0}), "0s");
  EXPECT_EQ(format_duration(Ms{1}), "1ms");
  EXPECT_EQ(format_duration(Ms{90'000}), "1m30s");
  EXPECT_EQ(format_duration(Ms{86'400'000}), "1d");
  EXPECT_EQ(format_duration(Ms{93'784'005}), "1d2h3m4s5ms");
  EXPECT_EQ(format_duration(Ms{-1500}), "-1s500ms");
  EXPECT_EQ(format_duration(Ms{std::numeric_limits<std::int64_t>::min()}), "-106751991167d7h12m55s808ms");
}

TEST(DurationProperty, WhatIsFormattedIsReadBack) {
  auto random = seeded();
  for (int i = 0; i < 20'000; ++i) {
    // All magnitudes alike: a uniform draw would hardly ever be below a day.
    const std::int64_t most = std::int64_t{1} << between(random, 0, 38);
    const Ms duration{between(random, 0, std::min<std::int64_t>(most, kLongest.count()))};
    const std::string text = format_duration(duration);
    const auto back = parse_duration(text);
    ASSERT_TRUE(back.has_value()) << text << ": " << back.error();
    ASSERT_EQ(*back, duration) << text;
  }
}

}  // namespace
}  // namespace rung::levels
