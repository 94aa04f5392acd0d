// What becomes of an error queue: looked for, consumed, refused, left with returned copies.
#include "plugin/rabbitmq/consume/error_queue_state.h"

#include <gtest/gtest.h>

namespace rung::rabbit {
namespace {

constexpr BootMs kStart{1'000'000};
BootMs after(std::int64_t seconds) { return kStart + Ms{1000 * seconds}; }

TEST(ErrorQueueState, IsLookedForOftenUntilItExists) {
  ErrorQueueState queue;
  EXPECT_TRUE(queue.look_due(kStart));
  queue.missing(kStart);
  EXPECT_FALSE(queue.wanted());
  EXPECT_FALSE(queue.look_due(after(4)));
  EXPECT_TRUE(queue.look_due(after(5)));
  queue.exists(0, 0, after(5));
  EXPECT_TRUE(queue.wanted());
  EXPECT_FALSE(queue.consumed()) << "the broker has not answered yet";
  queue.consuming();
  EXPECT_TRUE(queue.consumed());
  EXPECT_FALSE(queue.look_due(after(64)));
  EXPECT_TRUE(queue.look_due(after(65)));
}

TEST(ErrorQueueState, OneThatIsDeletedIsLookedForAtOnce) {
  ErrorQueueState queue;
  queue.exists(0, 0, kStart);
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
    queue.exists(0, 0, kStart);
    EXPECT_EQ(longest = pause_after_refusal(queue, kStart), expected);
    EXPECT_FALSE(queue.wanted());
    EXPECT_EQ(queue.problem(), "in use");
  }
  queue.exists(0, 0, kStart);  // the next try
  EXPECT_TRUE(queue.wanted());
  EXPECT_EQ(queue.problem(), "in use") << "it stays while it is tried";
}

TEST(ErrorQueueState, OnceItIsConsumedTheNextRefusalIsTheFirstOne) {
  ErrorQueueState queue;
  for (int i = 0; i < 5; ++i) pause_after_refusal(queue, kStart);
  queue.exists(0, 0, kStart);
  queue.consuming();
  EXPECT_EQ(queue.problem(), "");
  EXPECT_EQ(pause_after_refusal(queue, kStart), 5);
  for (int i = 0; i < 5; ++i) pause_after_refusal(queue, kStart);
  queue.missing(kStart);  // deleted, and perhaps declared anew
  EXPECT_EQ(queue.problem(), "");
  EXPECT_EQ(pause_after_refusal(queue, kStart), 5);
}

// A queue that was left with so many copies at kStart.
ErrorQueueState left_with(std::size_t copies) {
  ErrorQueueState queue;
  queue.exists(0, 0, kStart);
  queue.consuming();
  queue.left(copies, kStart);
  return queue;
}

TEST(ErrorQueueState, IsLeftUntilSomethingComes) {
  ErrorQueueState queue = left_with(2);
  EXPECT_FALSE(queue.wanted());
  EXPECT_TRUE(queue.consumed());
  EXPECT_FALSE(queue.look_due(after(2))) << "the copies go back";
  for (int s = 3; s < 100; ++s) {
    ASSERT_TRUE(queue.look_due(after(s))) << "each second";
    queue.exists(2, 0, after(s));
    ASSERT_FALSE(queue.wanted());
  }
  queue.exists(3, 0, after(100));
  EXPECT_TRUE(queue.wanted());
}

TEST(ErrorQueueState, AMessageThatCameBeforeTheFirstLookIsSeen) {
  ErrorQueueState queue = left_with(2);
  queue.exists(3, 0, after(1));
  EXPECT_TRUE(queue.wanted());
}

TEST(ErrorQueueState, AnotherInstanceThatHoldsTheCopiesForAWhileIsNoNews) {
  ErrorQueueState queue = left_with(3);
  for (int s = 1; s < 20; ++s) {
    queue.exists(0, 1, after(s));
    ASSERT_FALSE(queue.wanted());
  }
  queue.exists(3, 0, after(20));
  EXPECT_FALSE(queue.wanted());
}

TEST(ErrorQueueState, WhatAPersonTookOutDoesNotHideWhatComes) {
  ErrorQueueState queue = left_with(3);
  queue.exists(1, 0, after(1));
  EXPECT_FALSE(queue.wanted());
  queue.exists(2, 0, after(2));
  EXPECT_TRUE(queue.wanted());
}

TEST(ErrorQueueState, IsNotLeftForEver) {
  ErrorQueueState queue = left_with(3);
  queue.exists(3, 0, after(599));
  EXPECT_FALSE(queue.wanted());
  queue.exists(3, 0, after(600));
  EXPECT_TRUE(queue.wanted());
}

TEST(ErrorQueueState, OneThatIsGoneIsNotLeft) {
  ErrorQueueState queue = left_with(3);
  queue.missing(after(1));
  queue.left(3, after(1));
  queue.exists(0, 0, after(6));
  EXPECT_TRUE(queue.wanted());
}

}  // namespace
}  // namespace rung::rabbit
