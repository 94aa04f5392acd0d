// What becomes of an error queue: looked for, consumed, refused, left alone, at rest.
#include "plugin/rabbitmq/consume/error_queue_state.h"

#include <gtest/gtest.h>

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

TEST(ErrorQueueState, IsLookedForOftenUntilItExists) {
  ErrorQueueState queue;
  EXPECT_TRUE(queue.look_due(kStart));
  queue.missing(kStart);
  EXPECT_FALSE(queue.wanted());
  EXPECT_FALSE(queue.look_due(after(4)));
  EXPECT_TRUE(queue.look_due(after(5)));
  queue.exists(0, after(5));
  EXPECT_TRUE(queue.wanted());
  EXPECT_FALSE(queue.consumed()) << "the broker has not answered yet";
  queue.consuming();
  EXPECT_TRUE(queue.consumed());
  EXPECT_FALSE(queue.look_due(after(64)));
  EXPECT_TRUE(queue.look_due(after(65)));
}

TEST(ErrorQueueState, OneThatIsDeletedIsLookedForAtOnce) {
  ErrorQueueState queue;
  queue.exists(0, kStart);
  queue.consuming();
  queue.cancelled(after(10));
  EXPECT_FALSE(queue.wanted() || queue.consumed());
  EXPECT_EQ(queue.problem(), "");
  EXPECT_TRUE(queue.look_due(after(11)));
}

// Seconds until the queue is looked at again, after a refusal at `now`.
std::int64_t pause_after_refusal(ErrorQueueState& queue, BootMs now) {
  queue.refused("in use", now);
  std::int64_t s = 1;
  while (!queue.look_due(now + Ms{1000 * s})) ++s;
  return s;
}

TEST(ErrorQueueState, OneThatIsRefusedIsTriedLessAndLessOften) {
  ErrorQueueState queue;
  std::int64_t longest = 0;
  for (const std::int64_t expected : {5, 10, 20, 40, 80, 160, 320, 600, 600}) {
    queue.exists(0, kStart);
    EXPECT_EQ(longest = pause_after_refusal(queue, kStart), expected);
    EXPECT_FALSE(queue.wanted());
    EXPECT_EQ(queue.problem(), "in use");
  }
  queue.exists(0, kStart);  // the next try
  EXPECT_TRUE(queue.wanted());
  EXPECT_EQ(queue.problem(), "in use") << "it stays while it is tried";
}

TEST(ErrorQueueState, OnceItIsConsumedTheNextRefusalIsTheFirstOne) {
  ErrorQueueState queue;
  for (int i = 0; i < 5; ++i) pause_after_refusal(queue, kStart);
  queue.exists(0, kStart);
  queue.consuming();
  EXPECT_EQ(queue.problem(), "");
  EXPECT_EQ(pause_after_refusal(queue, kStart), 5);
  for (int i = 0; i < 5; ++i) pause_after_refusal(queue, kStart);
  queue.missing(kStart);  // deleted, and perhaps declared anew
  EXPECT_EQ(queue.problem(), "");
  EXPECT_EQ(pause_after_refusal(queue, kStart), 5);
}

TEST(ErrorQueueState, RestsUntilSomethingComes) {
  ErrorQueueState queue;
  queue.rest(2, kStart);
  queue.exists(0, kStart);
  EXPECT_TRUE(queue.wanted()) << "an order for a queue that is not there";
  queue.consuming();
  queue.rest(2, kStart);
  EXPECT_FALSE(queue.wanted());
  EXPECT_TRUE(queue.consumed());
  EXPECT_TRUE(queue.look_due(after(1)));
  queue.exists(2, after(1));
  EXPECT_FALSE(queue.wanted());
  EXPECT_TRUE(queue.look_due(after(2))) << "each second";
  queue.exists(3, after(2));
  EXPECT_TRUE(queue.wanted());
}

}  // namespace
}  // namespace rung::rabbit
