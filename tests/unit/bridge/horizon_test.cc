// Which tasks are in the heap, which stay in the database, and that none is late.
#include <gtest/gtest.h>

#include "src/bridge/flight/due.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class HorizonStory : public testing::Test {
 protected:
  // Those that were published within 10 ms of their time: by the heap. The sweep is later by 300 ms.
  static std::int64_t in_time(const Flow& flow) { return lateness(flow).counts[0]; }
  static std::int64_t late(const Flow& flow) {
    std::int64_t count = 0;
    for (const std::int64_t n : lateness(flow).counts) count += n;
    return count - in_time(flow);
  }
  static Lateness lateness(const Flow& flow) {
    Lateness all;
    for (const auto& [queue, counts] : flow.counts.by_queue()) all += counts.late;
    return all;
  }

  World world;
};

TEST_F(HorizonStory, TheBoundDropsTheLatestAndLoadsItAgain) {
  Flow flow(world, {.window = Ms{20'000}, .max_loaded = 3});
  flow.take_shards();
  flow.janitor.start();
  for (int i = 6; i > 0; --i) {
    flow.schedule(world.insert("orders", world.now() + Ms{1500 * i}));
    EXPECT_LE(flow.horizon.loaded(), 3U);
  }
  EXPECT_GE(flow.horizon.loaded(), 2U);
  world.loop.run_for(Ms{12'000});
  EXPECT_EQ(in_time(flow), 6);
  EXPECT_EQ(late(flow), 0);
}

TEST_F(HorizonStory, WhatIsBeyondTheWindowIsLeftToTheDatabaseUntilItNears) {
  Flow flow(world, {.window = Ms{10'000}, .max_loaded = 1000});
  flow.take_shards();
  flow.janitor.start();
  flow.schedule(world.insert("orders", world.now() + Ms{25'000}));
  EXPECT_EQ(flow.horizon.loaded(), 0U);
  world.loop.run_for(Ms{20'000});
  EXPECT_EQ(flow.horizon.loaded(), 1U);
  world.loop.run_for(Ms{6000});
  EXPECT_EQ(in_time(flow), 1);
}

TEST_F(HorizonStory, AShardThatIsTakenBringsItsRows) {
  const EpochMs due = world.now() + Ms{2000};
  world.insert("orders", due);
  Flow flow(world);
  flow.take_shards();
  world.run_until(due - Ms{1});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  world.run_until(due + Ms{10});
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
}

TEST_F(HorizonStory, ALoadThatIsCutShortGoesOnWhereItEnded) {
  for (int i = 0; i < 2100; ++i) world.insert("orders", world.now() + Ms{60'000 + i}, 7);
  Flow flow(world);
  flow.take_shards();
  world.loop.run_for(Ms{10});
  EXPECT_EQ(flow.horizon.loaded(), 2000U);
  flow.janitor.start();
  world.loop.run_for(Ms{1100});
  EXPECT_EQ(flow.horizon.loaded(), 2100U);
}

TEST_F(HorizonStory, ARowOfAShardThatIsNotHeldIsItsOwnersAffair) {
  Flow flow(world);
  flow.take_shards();
  Flow owner(world, {.name = "b"});
  owner.take_shards(kShards / 2);
  const TaskId id = world.insert("orders", world.now() + Ms{1000}, owner.shards.list()[0]);
  for (Flow* each : {&flow, &owner}) each->schedule(id);
  EXPECT_EQ(flow.horizon.loaded(), 0U);
  EXPECT_EQ(owner.horizon.loaded(), 1U);
}

}  // namespace
}  // namespace rung::bridge
