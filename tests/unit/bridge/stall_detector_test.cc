// A connection on which nothing is answered.
#include "src/bridge/stall_detector.h"

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
