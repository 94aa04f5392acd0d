// A connection on which nothing is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class StallStory : public testing::Test {
 protected:
  StallStory() {
    flow.take_shards();
    flow.janitor.start();  // looks each second
    flow.broker.hold_confirms();
  }
  TaskId publish(const std::string& queue) {
    const TaskId id = world.insert(queue, world.now());
    flow.hand_over(id);
    return id;
  }
  std::size_t quarantined() const { return flow.dispatch.targets().quarantined; }

  World world;
  Flow flow{world};
};

TEST_F(StallStory, SeveralQueuesWithoutAnAnswerAreAskedAloneAndGoOnWhenTheyAnswer) {
  const TaskId one = publish("orders"), other = publish("invoices");
  world.loop.run_for(Ms{9000});
  EXPECT_EQ(quarantined(), 0U);
  world.loop.run_for(Ms{3000});
  EXPECT_EQ(quarantined(), 2U);
  flow.broker.release_confirms();
  ASSERT_TRUE(world.loop.run_until([&] { return quarantined() == 0; }));
  for (const TaskId id : {one, other}) {
    ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
    EXPECT_EQ(world.row(id).attempt, 1) << "published again under the same number";
  }
}

TEST_F(StallStory, OneSilentQueueAloneKeepsItsConnection) {
  publish("orders");
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(quarantined(), 0U);
  EXPECT_EQ(flow.broker.depth("orders"), 1U) << "not published again";
}

TEST_F(StallStory, OneSilentQueueAmongOthersThatAnswerIsQuarantinedAndReported) {
  flow.broker.hold_confirms("orders");
  const TaskId stuck = publish("orders");
  for (int second = 0; second < 12; ++second) {
    publish("invoices");
    world.loop.run_for(Ms{1000});
  }
  EXPECT_EQ(quarantined(), 1U);
  ASSERT_TRUE(flow.health.has("silent_queues"));
  EXPECT_THAT(flow.health.problems().front().detail, testing::HasSubstr("publishes to orders:"));
  EXPECT_FALSE(flow.health.problems().front().not_ready);
  const TaskId later = publish("orders");
  world.loop.run_for(Ms{30'000});
  EXPECT_EQ(world.row(later).state, State::scheduled) << "it waits";
  EXPECT_EQ(flow.broker.depth("orders"), 1U) << "not published again";
  EXPECT_EQ(flow.broker.depth("invoices"), 12U) << "the connection stays";
  flow.broker.release_confirms();
  for (const TaskId id : {stuck, later}) {
    ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
    EXPECT_EQ(world.row(id).attempt, 1);
  }
  ASSERT_TRUE(world.loop.run_until([&] { return !flow.health.has("silent_queues"); }));
  EXPECT_EQ(quarantined(), 0U);
}

TEST_F(StallStory, AQuarantinedQueueThatBlocksAnotherOneStallsTheConnection) {
  flow.broker.hold_confirms("orders");
  publish("orders");
  for (int second = 0; second < 12; ++second) {
    publish("invoices");
    world.loop.run_for(Ms{1000});
  }
  ASSERT_EQ(quarantined(), 1U);
  flow.broker.hold_confirms();
  const TaskId blocked = publish("invoices");
  ASSERT_TRUE(world.loop.run_until([&] { return quarantined() == 2; }));
  flow.broker.hold_confirms("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(blocked).state == State::awaiting; }));
}

TEST_F(StallStory, OneSilentQueueAloneIsReported) {
  publish("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return flow.health.has("silent_queues"); }));
  flow.broker.release_confirms();
  ASSERT_TRUE(world.loop.run_until([&] { return !flow.health.has("silent_queues"); }));
}

TEST_F(StallStory, ABrokerThatIsAwayIsNoStall) {
  publish("orders");
  publish("invoices");
  world.loop.run_for(Ms{1000});
  flow.dispatch.open(false);
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(quarantined(), 0U);
}

}  // namespace
}  // namespace rung::bridge
