// Every row is eventually moved by some instance.
#include "src/bridge/upkeep/janitor.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class JanitorStory : public testing::Test {
 protected:
  void start() {
    flow.take_shards();
    flow.janitor.start();
  }
  // One whose copy for rung.parked is owed.
  TaskId insert_parked(int shard = 5) {
    return world.insert("billed", world.now(), shard, [&](Task& task) {
      task.state = State::parked;
      task.attempt = 3;
      task.finished_at = world.now();
    });
  }

  World world;
  Flow flow{world};
};

TEST_F(JanitorStory, TheSweepFindsWhatAnotherInstanceMoved) {
  start();
  const TaskId id = world.insert("orders", world.now() + Ms{3'600'000});
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  ASSERT_EQ(world.apply(Fence{}, {id, event::Fire{}, ByHand{"ann", {}}}).verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
}

TEST_F(JanitorStory, WithoutWorkItAsksOneThingTwiceASecond) {
  start();
  world.insert("orders", world.now() + Ms{3'600'000});
  world.loop.run_for(Ms{2000});
  const auto asked = [&] {
    return std::array{flow.jobs.submitted(Lane::sweeps), flow.jobs.submitted(Lane::flow),
                      flow.jobs.submitted(Lane::upkeep)};
  };
  const auto before = asked();
  world.loop.run_for(Ms{30'000});
  EXPECT_EQ(asked(), (std::array{before[0] + 28, before[1] + 20, before[2] + 20}))
      << "in turn, and each ten seconds a search for forgotten claims and one for queues of what awaits an "
         "answer, each 15 one for causes";
}

// The rows say `scheduled`, but the sweep must not treat them as unclaimed.
TEST_F(JanitorStory, ShortClaimsOfADeadOwnerWaitAsWell) {
  std::vector<Event> claims;
  for (std::size_t i = 0; i < kShortClaims; ++i)
    claims.push_back({world.insert("orders", world.now()), event::Claim{}});
  const Fence peer = world.peer("peer", Ms{2000});
  world.eyes->claim(claims, peer, decider(world.rules), 1'000'000);
  for (const Event& claim : claims) ASSERT_EQ(world.row(claim.id).state, State::scheduled);
  start();
  const EpochMs taken = world.now();
  world.loop.run_for(Ms{1000});
  for (const Event& claim : claims) EXPECT_EQ(world.row(claim.id).state, State::publishing);
  world.run_until(taken + Ms{4990});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  world.run_until(taken + Ms{6100});
  EXPECT_EQ(flow.attempts_in("orders"), std::vector<int>(claims.size(), 1));
}

TEST_F(JanitorStory, WhatAnOwnerLeftThatGaveItsShardsBackIsPublishedAtOnce) {
  const TaskId id = world.insert("orders", world.now());
  const Fence peer = world.peer("peer", Ms{2000});
  ASSERT_EQ(world.apply(peer, {id, event::Claim{}}).verdict, Decision::Verdict::applied);
  world.eyes->leave(peer.node, 7);
  start();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
}

// The shards count as its own then, but the peer's connection may be alive.
TEST_F(JanitorStory, TheWaitForADeadOwnersConnectionOutlivesItsSuccessors) {
  const TaskId id = world.insert("orders", world.now());
  const Fence peer = world.peer("peer", Ms{2000});
  ASSERT_EQ(world.apply(peer, {id, event::Claim{}}).verdict, Decision::Verdict::applied);
  start();
  const EpochMs taken = world.now();
  world.loop.run_for(Ms{1000});
  bool left = false;
  flow.shards.leave([&] { left = true; });  // one that gives the shards back ...
  ASSERT_TRUE(world.loop.run_until([&] { return left; }));
  auto next = std::make_unique<Flow>(world, Flow::Options{.name = "b"});
  next->take_shards();
  next = std::make_unique<Flow>(world, Flow::Options{.name = "b"});  // ... and one that restarts
  next->take_shards();
  next->janitor.start();
  world.run_until(taken + Ms{4900});
  EXPECT_EQ(next->broker.depth("orders"), 0U);
  world.run_until(taken + Ms{6100});
  EXPECT_EQ(next->attempts_in("orders"), (std::vector<int>{1}));
}

// Regression: the sweep found them as due, and their claims were refused for ever.
TEST_F(JanitorStory, ShortClaimsAreWrittenAlsoIfTheirShardWasToBeGivenBackMeanwhile) {
  constexpr int kShard = kShards - 1;  // the first to be given back
  std::vector<Event> claims;
  for (std::size_t i = 0; i < kShortClaims; ++i)
    claims.push_back({world.insert("orders", world.now(), kShard), event::Claim{}});
  const Fence peer = world.peer("peer", Ms{2000});
  world.eyes->claim(claims, peer, decider(world.rules), 1'000'000);
  flow.jobs.by_hand(Lane::sweeps);
  start();
  ASSERT_TRUE(flow.jobs.run_next(Lane::sweeps));  // loads what is due
  world.db->fail_next(1, Error::Kind::permanent);
  ASSERT_TRUE(flow.jobs.run_next(Lane::sweeps)) << "the first write";
  flow.jobs.by_itself(Lane::sweeps);
  flow.shards.begin_use(kShard);
  const int other = world.eyes->register_node({"other", "0", "there", 8}, Ms{60'000});
  ASSERT_TRUE(world.loop.run_until([&] { return !flow.shards.held(kShard); }));
  world.loop.run_for(Ms{2000});
  ASSERT_NE(flow.shards.epoch(kShard), 0U);
  ASSERT_FALSE(flow.shards.held(kShard)) << "when its time has come";
  world.eyes->leave(other, 8);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.shards.held(kShard); }));
  flow.shards.end_use(kShard);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.attempts_in("orders"), std::vector<int>(claims.size(), 1));
}

TEST_F(JanitorStory, SilenceIsASuccessWhenItsTimeIsOverAndNotBefore) {
  start();
  const TaskId id = world.insert_awaiting("orders");
  const EpochMs over = *world.row(id).next_at;
  world.run_until(over - Ms{1});
  EXPECT_EQ(world.row(id).state, State::awaiting);
  world.run_until(over + Ms{1100});
  EXPECT_EQ(world.row(id).state, State::succeeded);
  EXPECT_EQ(world.row(id).finished_by, FinishedBy::presumed);
}

TEST_F(JanitorStory, AParkedCopyThatIsLostIsSentAgainUntilItIsConfirmedAndThenNoMore) {
  start();
  flow.broker.lose_next(1, false);
  const TaskId id = insert_parked();
  world.loop.run_for(Ms{1100});
  EXPECT_EQ(flow.broker.depth("rung.parked"), 0U);
  EXPECT_TRUE(world.row(id).next_at) << "it is owed still";
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.broker.depth("rung.parked"), 1U);
  EXPECT_FALSE(world.row(id).next_at);
}

// Regression: an instance sent 500 copies at each look, however many were owed.
TEST_F(JanitorStory, CopiesOfManyThatParkTogetherDoNotWaitForOneAnother) {
  start();
  for (int i = 0; i < 3000; ++i) insert_parked(i % kShards);
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(flow.broker.depth("rung.parked"), 3000U);
}

// B8.
TEST_F(JanitorStory, AnIdWhoseRowIsGoneWhenItsCopyIsReadDoesNotStayInHand) {
  start();
  // The poll has just asked on this lane: the next one finds the copy, and then it asks on another.
  const std::size_t asked = flow.jobs.submitted(Lane::flow);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.jobs.submitted(Lane::flow) > asked; }));
  world.loop.run_for(Ms{10});
  const auto without_it = world.db->back_up();
  const TaskId id = insert_parked();
  const auto with_it = world.db->back_up();
  flow.jobs.by_hand(Lane::flow);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.jobs.waiting(Lane::flow) == 1; }));
  without_it();
  ASSERT_TRUE(flow.jobs.run_next());
  world.loop.run_for(Ms{0});
  with_it();
  flow.jobs.by_itself(Lane::flow);
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(flow.broker.depth("rung.parked"), 1U);
  EXPECT_FALSE(world.row(id).next_at);
}

// Ours by its epoch, but not tracked.
TEST_F(JanitorStory, AClaimThatNobodyHasInHandIsPublishedAfterAMinute) {
  start();
  const TaskId id = world.insert("orders", world.now());
  ASSERT_EQ(world.apply(flow.shards.fence(), {id, event::Claim{}}).verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{59'000});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  world.loop.run_for(Ms{12'000});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
}

// A queue that stands still fills whole pages of what is due: behind them a person fires one of another
// queue.
TEST_F(JanitorStory, WhatAPersonFiresIsFoundBehindPagesOfWhatStandsStill) {
  start();
  flow.broker.hold_confirms();
  for (int i = 0; i < 200; ++i) world.insert("invoices", world.now() - Ms{60'000});
  world.loop.run_for(Ms{5000});
  const TaskId id = world.insert("orders", world.now() + Ms{3'600'000});
  ASSERT_EQ(world.apply(Fence{}, {id, event::Fire{}, ByHand{"ann", {}}}).verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
}

}  // namespace
}  // namespace rung::bridge
