// The record of a task under way: its transitions, and what is counted by them.
#include "src/bridge/flight/flights.h"

#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class FlightsTest : public testing::Test {
 protected:
  using How = PublishResult::How;
  using Stage = Flight::Stage;
  static constexpr std::uint32_t kQueue = 1, kOther = 2;
  static constexpr int kShard = 5;
  static constexpr TaskId kId{77};
  static constexpr std::size_t kBytes = 100;
  static constexpr BootMs kNow{1000};

  FlightsTest() {
    for (const char* queue : {"one", "two"}) flow.names.number(queue);  // kQueue, kOther
    flow.take_shards();
  }
  static io::DueItem item(std::uint32_t queue = kQueue) { return {kId, EpochMs{1}, kShard, queue}; }
  static Decision applied(int shard = kShard) {
    Decision decision;
    decision.verdict = Decision::Verdict::applied;
    decision.task.id = kId;
    decision.task.shard = shard;
    return decision;
  }
  void begin_claim() {
    flights.add(item());
    EXPECT_TRUE(flights.begin_claim(item()));
  }
  Flight& claimed(bool reads) {
    begin_claim();
    return flights.claimed(kId, applied(), kBytes, reads);
  }
  MessagePtr message() const { return std::make_shared<Message>(); }
  // Nothing of it is left anywhere.
  void expect_gone() {
    EXPECT_FALSE(flights.contains(kId));
    EXPECT_EQ(flights.under_way(), 0U);
    EXPECT_EQ(flights.bytes(), 0U);
    for (std::size_t stage = 0; stage < Flight::kStages; ++stage)
      EXPECT_EQ(flights.count(static_cast<Stage>(stage)), 0U) << stage;
    EXPECT_FALSE(flow.shards.in_use(kShard));
    targets.forget(kQueue);  // requires that nothing of it is under way
  }

  World world;
  Flow flow{world};
  Targets targets{flow.sidecar, flights, 10, 10};
  Flights flights{flow.sidecar, targets};
};

TEST_F(FlightsTest, WhatIsCountedFollowsTheStage) {
  flights.add(item());
  EXPECT_FALSE(flights.publishing(kId));
  EXPECT_FALSE(flow.shards.in_use(kShard));
  ASSERT_TRUE(flights.begin_claim(item()));
  EXPECT_TRUE(flights.publishing(kId));
  EXPECT_TRUE(flow.shards.in_use(kShard));
  EXPECT_EQ(flights.under_way(), 1U);
  Flight& flight = flights.claimed(kId, applied(), kBytes, false);
  EXPECT_EQ(flights.count(Stage::unread), 1U);
  flights.read(flight);
  EXPECT_EQ(flights.bytes(), 0U);
  flights.hold(flight, message());
  EXPECT_EQ(flights.count(Stage::held), 1U);
  EXPECT_EQ(flights.bytes(), kBytes);
  flights.send(flight, kNow);
  EXPECT_EQ(flights.bytes(), kBytes);
  EXPECT_EQ(flights.count(Stage::sent), 1U);
  flights.answered(flight, How::confirmed, kNow);
  EXPECT_EQ(flights.under_way(), 0U);
  EXPECT_EQ(flights.bytes(), 0U);
  EXPECT_TRUE(flights.publishing(kId));
  EXPECT_TRUE(flow.shards.in_use(kShard)) << "until the row records it";
  flights.end(kId);
  expect_gone();
}

TEST_F(FlightsTest, ItMayLeaveAtEachStageBeforeItIsSent) {
  flights.add(item());
  flights.drop(kId);
  expect_gone();
  flights.add(item());
  ASSERT_TRUE(flights.begin_claim(item()));
  flights.not_claimed(kId);
  expect_gone();
  flights.release(claimed(false));
  expect_gone();
  Flight& held = claimed(true);
  flights.hold(held, message());
  flights.release(held);
  expect_gone();
  flights.unsendable(claimed(true));
  EXPECT_EQ(flights.count(Stage::recording), 1U);
  flights.end(kId);
  expect_gone();
}

TEST_F(FlightsTest, OnlyUnclaimedTasksAreDropped) {
  flights.add(item());
  ASSERT_TRUE(flights.begin_claim(item()));
  flights.add({TaskId{78}, EpochMs{1}, kShard, kQueue});
  flights.drop(kId);
  flights.drop_unclaimed();
  EXPECT_TRUE(flights.contains(kId));
  EXPECT_FALSE(flights.contains(TaskId{78}));
}

TEST_F(FlightsTest, ATaskThatWasMovedWaitsForItsNewQueue) {
  flights.add(item(), true);
  flights.add(item(kOther));
  EXPECT_FALSE(flights.find(kId)->again);
  EXPECT_FALSE(flights.waits(item()));
  EXPECT_FALSE(flights.begin_claim(item()));
  ASSERT_TRUE(flights.begin_claim(item(kOther)));
  EXPECT_TRUE(flights.contains(item())) << "as soon as it is to be claimed, from wherever";
}

// A change by another instance has moved it while it waited here.
TEST_F(FlightsTest, AnotherShardIsInUseIfTheRowHasIt) {
  flights.add(item());
  ASSERT_TRUE(flights.begin_claim(item()));
  Flight& flight = flights.claimed(kId, applied(kShard + 1), kBytes, false);
  EXPECT_FALSE(flow.shards.in_use(kShard));
  EXPECT_TRUE(flow.shards.in_use(kShard + 1));
  flights.release(flight);
  EXPECT_FALSE(flow.shards.in_use(kShard + 1));
}

using FlightsDeathTest = FlightsTest;

TEST_F(FlightsDeathTest, NoStageIsLeftOut) {
  flights.add(item());
  EXPECT_DEATH(flights.not_claimed(kId), "not as required");
  EXPECT_DEATH(flights.end(kId), "not as required");
  ASSERT_TRUE(flights.begin_claim(item()));
  EXPECT_DEATH(flights.add(item(kOther)), "not as required");
  Flight& flight = flights.claimed(kId, applied(), kBytes, false);
  EXPECT_DEATH(flights.send(flight, kNow), "not as required");
  flights.read(flight);
  EXPECT_DEATH(flights.answered(flight, How::confirmed, kNow), "not as required");
  flights.send(flight, kNow);
  EXPECT_DEATH(flights.release(flight), "not as required");
  EXPECT_DEATH(flights.send(flight, kNow), "not as required");
  flights.answered(flight, How::confirmed, kNow);
  EXPECT_DEATH(flights.answered(flight, How::confirmed, kNow), "not as required");
}

}  // namespace
}  // namespace rung::bridge
