// When an error queue in which only returned copies are left is consumed again.
#include <gtest/gtest.h>

#include "plugin/rabbitmq/error_queue_watch.h"

namespace rung::rabbit {
namespace {

constexpr BootMs kStart{1'000'000};
BootMs after(std::int64_t seconds) { return kStart + Ms{1000 * seconds}; }

TEST(RestWatch, EndsWhenAMessageComes) {
  RestWatch rest(kStart, 3, 0);
  for (int s = 1; s < 100; ++s) ASSERT_FALSE(rest.over(3, after(s)));
  EXPECT_TRUE(rest.settled());
  EXPECT_TRUE(rest.over(4, after(100)));
}

TEST(RestWatch, AMessageThatCameBeforeTheFirstLookIsSeen) {
  RestWatch rest(kStart, 3, 0);
  EXPECT_TRUE(rest.over(4, after(1)));
  EXPECT_FALSE(rest.settled());
}

TEST(RestWatch, AnotherInstanceThatHoldsTheCopiesForAWhileEndsNothing) {
  RestWatch rest(kStart, 3, 0);
  EXPECT_FALSE(rest.over(3, after(1)));
  EXPECT_FALSE(rest.over(0, after(2)));
  EXPECT_FALSE(rest.over(3, after(3)));
}

TEST(RestWatch, WhatAPersonRemovedLowersTheMark) {
  RestWatch rest(kStart, 3, 0);
  EXPECT_FALSE(rest.over(3, after(1)));
  for (int s = 2; s < 8; ++s) EXPECT_FALSE(rest.over(1, after(s)));
  EXPECT_TRUE(rest.over(2, after(8)));
}

TEST(RestWatch, TwoInstancesThatShareTheCopiesDoNotTakeThemInTurnsForEver) {
  // Each time the count is another one than ours, the rest is longer, up to ten seconds.
  std::int64_t before = 0;
  for (int unsettled = 0; unsettled < 12; ++unsettled) {
    RestWatch rest(kStart, 2, unsettled);
    std::int64_t s = 1;
    while (!rest.over(5, after(s))) ++s;
    EXPECT_GE(s, before);
    EXPECT_LE(s, 10);
    before = s;
  }
  EXPECT_EQ(before, 10);
}

TEST(RestWatch, IsBounded) {
  RestWatch rest(kStart, 3, 0);
  EXPECT_FALSE(rest.over(3, after(1)));
  EXPECT_TRUE(rest.over(3, kStart + RestWatch::kLongest));
}

}  // namespace
}  // namespace rung::rabbit
