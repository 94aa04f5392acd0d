#include "levels/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "levels/ready.h"

namespace rung::levels {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Ms s(std::int64_t n) { return Ms{n * 1000}; }

std::vector<Ms> delays(const Ladder& ladder) {
  std::vector<Ms> all;
  for (int level = 1; level <= ladder.levels(); ++level) all.push_back(ladder.delay(level));
  return all;
}

std::string refused(std::vector<Ms> list, double jitter = 0.0) {
  const auto ladder = Ladder::from_list(std::move(list), jitter);
  EXPECT_FALSE(ladder.has_value());
  return ladder ? "" : ladder.error();
}

std::string refused_spec(const Exponential& spec, double jitter = 0.0) {
  const auto ladder = Ladder::from_exponential(spec, jitter);
  EXPECT_FALSE(ladder.has_value());
  return ladder ? "" : ladder.error();
}

TEST(Ladder, OfAList) {
  const auto ladder = Ladder::from_list({s(5), s(30), s(30), s(60)});
  ASSERT_TRUE(ladder.has_value()) << ladder.error();
  EXPECT_EQ(ladder->levels(), 4);
  EXPECT_EQ(ladder->delay(1), s(5));
  EXPECT_EQ(ladder->delay(4), s(60));
  EXPECT_EQ(ladder->highest(), s(60));
  EXPECT_EQ(ladder->since_first(1), s(5));
  EXPECT_EQ(ladder->since_first(4), s(125));
  EXPECT_EQ(ladder->jitter(), 0.0);
}

TEST(Ladder, RefusesAListThatIsNoLadder) {
  EXPECT_EQ(refused(std::vector<Ms>{}), "a ladder needs at least one level, e.g. [5s, 30s, 1m]");
  EXPECT_EQ(refused({s(5), Ms{0}}), "level 2 is zero: a delay is at least 1ms");
  EXPECT_EQ(refused({Ms{-1}}), "level 1 is zero: a delay is at least 1ms");
  EXPECT_EQ(refused({s(5), s(30), s(10)}),
            "level 3 (10s) is shorter than the previous level (30s): delays must not decrease");
  EXPECT_EQ(refused({kLongest + Ms{1}}), "level 1 is longer than 3650d, the longest delay");
  EXPECT_EQ(refused({Ms::max()}), "level 1 is longer than 3650d, the longest delay");
  EXPECT_EQ(refused(std::vector<Ms>(1001, s(1))), "a ladder of 1001 levels: at most 1000 are allowed");
  EXPECT_TRUE(Ladder::from_list(std::vector<Ms>(1000, kLongest)).has_value());
}

TEST(Ladder, RefusesJitterOutOfRange) {
  for (const double jitter : {-0.01, 1.01, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(refused({s(5)}, jitter), "jitter must be from 0% (off) to 100%") << jitter;
    EXPECT_EQ(refused_spec(Exponential{s(1), 2, s(5), 3}, jitter), "jitter must be from 0% (off) to 100%")
        << jitter;
  }
}

TEST(Ladder, OfBaseAndFactor) {
  const auto ladder = Ladder::from_exponential({.base = s(10), .factor = 2, .max = s(60), .levels = 5});
  ASSERT_TRUE(ladder.has_value()) << ladder.error();
  EXPECT_THAT(delays(*ladder), ElementsAre(s(10), s(20), s(40), s(60), s(60)));
  const auto odd = Ladder::from_exponential({.base = Ms{100}, .factor = 1.5, .max = Ms{0}, .levels = 4});
  ASSERT_TRUE(odd.has_value()) << odd.error();
  EXPECT_THAT(delays(*odd), ElementsAre(Ms{100}, Ms{150}, Ms{225}, Ms{338}));
  const auto flat = Ladder::from_exponential({.base = s(5), .factor = 1, .max = Ms{0}, .levels = 3});
  EXPECT_THAT(delays(*flat), ElementsAre(s(5), s(5), s(5)));
}

TEST(Ladder, ABoundlessExponentialStopsAtTheLongestDelay) {
  const auto ladder =
      Ladder::from_exponential({.base = Ms{1}, .factor = 1e300, .max = Ms{0}, .levels = 1000});
  ASSERT_TRUE(ladder.has_value()) << ladder.error();
  EXPECT_EQ(ladder->delay(1), Ms{1});
  EXPECT_EQ(ladder->delay(2), kLongest);
  EXPECT_EQ(ladder->delay(1000), kLongest);
  EXPECT_EQ(ladder->since_first(1000), Ms{1} + 999 * kLongest);
}

TEST(Ladder, RefusesAnExponentialThatIsNoLadder) {
  const Exponential good{.base = s(10), .factor = 2, .max = s(60), .levels = 5};
  const auto with = [&](auto change) {
    Exponential spec = good;
    change(spec);
    return refused_spec(spec);
  };
  EXPECT_EQ(with([](auto& e) { e.base = Ms{0}; }), "base is zero: it is the first delay, e.g. 10s");
  EXPECT_EQ(with([](auto& e) { e.base = Ms::max(); }), "base is longer than 3650d, the longest delay");
  for (const double factor : {0.99, 0.0, -2.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_THAT(with([&](auto& e) { e.factor = factor; }), HasSubstr("factor is a number from 1")) << factor;
  }
  EXPECT_EQ(with([](auto& e) { e.max = s(5); }),
            "max (5s) is shorter than base (10s): no delay could be that short");
  EXPECT_EQ(with([](auto& e) { e.max = Ms::max(); }), "max is longer than 3650d, the longest delay");
  EXPECT_THAT(with([](auto& e) { e.levels = 0; }), HasSubstr("at least one level"));
  EXPECT_THAT(with([](auto& e) { e.levels = -3; }), HasSubstr("at least one level"));
  EXPECT_EQ(with([](auto& e) { e.levels = std::numeric_limits<int>::max(); }),
            "a ladder of 2147483647 levels: at most 1000 are allowed");
}

TEST(Ladder, JitterOnlyEverAdds) {
  const auto ladder = Ladder::from_list({s(10)}, 0.2);
  ASSERT_TRUE(ladder.has_value());
  EXPECT_EQ(ladder->delay(1, 0.0), s(10));
  EXPECT_EQ(ladder->delay(1, 0.5), s(11));
  EXPECT_EQ(ladder->delay(1, 1.0), s(12));
  // Dice that are not in [0, 1) do not make it early, nor late beyond the bound.
  EXPECT_EQ(ladder->delay(1, -3.0), s(10));
  EXPECT_EQ(ladder->delay(1, 7.0), s(12));
  EXPECT_EQ(ladder->delay(1, std::nan("")), s(10));
  EXPECT_EQ(Ladder::from_list({s(10)})->delay(1, 0.999), s(10));
}

TEST(ReadyLadders, AreEmbeddedUnderTheirNames) {
  std::vector<std::string_view> names;
  for (const auto& [name, yaml] : ready_ladders()) {
    names.push_back(name);
    EXPECT_THAT(std::string(yaml), HasSubstr("# " + std::string(name) + ": "));
  }
  EXPECT_THAT(names, ElementsAre("default", "patient", "quick", "webhook"));
}

}  // namespace
}  // namespace rung::levels
