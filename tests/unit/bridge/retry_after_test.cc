// A consumer's retry-after for the whole queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::SizeIs;

GateRules with_retry_after() {
  GateRules gate;
  gate.retry_after = {kSecond * 60, true};
  return gate;
}

class RetryAfterStory : public GateStory {
 protected:
  RetryAfterStory() : GateStory(with_retry_after()) {}
  void asks(TaskId id, Ms wait, bool proven = true) {
    event::Failed failed;
    failed.attempt = 1;
    failed.error = "HTTP 429";
    failed.directives.retry_after = wait;
    failed.proven = proven;
    flow->say({id, failed});
    world.loop.run_for(Ms{proven ? 0 : 100});
  }
};

TEST_F(RetryAfterStory, AConsumerHoldsBackTheWholeQueue) {
  const TaskId first = scheduled("orders", Ms{100});
  world.loop.run_for(Ms{300});
  ASSERT_THAT(sent(), SizeIs(1));
  asks(first, kSecond * 3600);
  const TaskId second = scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 59);
  EXPECT_THAT(sent(), SizeIs(1));
  const QueueGate gate = world.gate("orders");
  EXPECT_EQ(gate.state, "paused");
  EXPECT_EQ(gate.by, "retry-after");
  EXPECT_EQ(gate.reason, "task " + first.str() + " asked for 1m");
  world.loop.run_for(kSecond * 3);
  EXPECT_THAT(sent(), SizeIs(3));
  EXPECT_GE(world.row(second).uncounted_time, kSecond * 55);
}

// Anybody who may publish to rung.failed can write a retry-after.
TEST_F(RetryAfterStory, WithoutProofOnlyTheTaskItselfWaits) {
  const TaskId first = scheduled("orders", Ms{100});
  world.loop.run_for(Ms{300});
  asks(first, kSecond * 3600, false);
  const TaskId second = scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 30);
  EXPECT_EQ(sent(), (std::vector<TaskId>{first, second}));
  EXPECT_FALSE(flow->gates.why_closed("orders"));
  EXPECT_EQ(world.row(first).state, State::scheduled);
}

TEST_F(RetryAfterStory, AResumeEndsIt) {
  const TaskId first = scheduled("orders", Ms{100});
  world.loop.run_for(Ms{300});
  asks(first, kSecond * 60);
  const TaskId second = scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), SizeIs(1));
  EXPECT_TRUE(world.eyes->resume("orders", "ann", "")->retry_after);
  world.loop.run_for(kSecond);
  EXPECT_EQ(sent(), (std::vector<TaskId>{first, second}));
}

TEST_F(RetryAfterStory, AThousandOfThemAreOneChangeAndTheLongestApplies) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(scheduled("orders", Ms{100}));
  world.loop.run_for(kSecond * 3);
  ASSERT_THAT(sent(), SizeIs(1000));
  flow->jobs.by_hand(Lane::gate_writes);
  for (std::size_t i = 0; i < ids.size(); ++i) asks(ids[i], Ms{20'000 + static_cast<int>(i) * 10});
  world.loop.run_for(kSecond);
  EXPECT_LE(flow->jobs.waiting(Lane::gate_writes), 1U);
  while (flow->jobs.run_next(Lane::gate_writes)) world.loop.run_for(Ms{1});
  flow->jobs.by_itself(Lane::gate_writes);
  world.loop.run_for(kSecond);
  EXPECT_EQ(flow->gates.pending(), 0U);
  const auto hold = world.eyes->gate_states().value().at(0).retry_after;
  ASSERT_TRUE(hold);
  EXPECT_GE(hold->until - hold->since, Ms{29'990});
  EXPECT_EQ(hold->reason, "task " + ids.back().str() + " asked for 29s990ms");
}

}  // namespace
}  // namespace rung::bridge
