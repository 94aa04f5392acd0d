// From due to published, one step at a time.
#include "src/bridge/flight/dispatch.h"

#include <gtest/gtest.h>

#include "src/bridge/flight/due.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class DispatchStory : public testing::Test {
 protected:
  DispatchStory() { flow.take_shards(); }
  // One that is due in so long, claimed ahead, and held back.
  TaskId held_back(const World::Edit& edit = [](Task&) {}) {
    const TaskId id = world.insert("orders", world.now() + Ms{80}, 5, edit);
    flow.hand_over(id);
    world.loop.run_for(Ms{40});
    EXPECT_EQ(world.row(id).state, State::publishing);
    EXPECT_EQ(flow.broker.depth("orders"), 0U);
    return id;
  }

  World world;
  Flow flow{world};
};

// As for intake: only the next cycle tells whose they are.
TEST_F(DispatchStory, ClaimsUnderLeasesThatWereLostUnnoticedAreNotRepeatedAtOnce) {
  world.eyes->release(flow.shards.node(), flow.shards.fence().leases);
  world.peer("peer", Ms{60'000});
  const TaskId id = world.insert("orders", world.now());
  const std::size_t before = flow.jobs.submitted(Lane::flow);
  flow.hand_over(id);
  world.loop.run_for(Ms{100});
  EXPECT_LE(flow.jobs.submitted(Lane::flow) - before, 2U);
  EXPECT_FALSE(flow.shards.any());
}

TEST_F(DispatchStory, AClaimWhoseAnswerIsLostIsPublishedOnceUnderTheSameAttempt) {
  const TaskId id = world.insert("orders", world.now());
  flow.jobs.by_hand(Lane::flow);
  flow.hand_over(id);
  world.loop.run_for(Ms{0});
  world.db->lose_next_answers(1);
  ASSERT_TRUE(flow.jobs.run_next());
  EXPECT_EQ(world.row(id).state, State::publishing) << "it was committed";
  ASSERT_TRUE(flow.jobs.run_next());
  flow.jobs.by_itself(Lane::flow);
  world.loop.run_for(Ms{100});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
  EXPECT_EQ(world.row(id).state, State::awaiting);
  EXPECT_EQ(world.row(id).attempt, 1);
  EXPECT_EQ(world.eyes->history(id).size(), 1U);
}

TEST_F(DispatchStory, WhatIsClaimedAheadIsHeldBackToItsMs) {
  const EpochMs due = world.now() + Ms{500};
  const TaskId id = world.insert("orders", due);
  flow.schedule(id);
  world.run_until(due - Ms{1});
  EXPECT_EQ(world.row(id).state, State::publishing) << "claimed";
  EXPECT_EQ(flow.broker.depth("orders"), 0U) << "and not published before its time";
  world.run_until(due);
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
}

TEST_F(DispatchStory, ACancelThatComesAfterTheClaimIsRefused) {
  const TaskId claimed = held_back();
  EXPECT_EQ(flow.say({claimed, event::Cancel{}, ByHand{"ann", {}}})->verdict, Decision::Verdict::refused);
  const TaskId cancelled = world.insert("orders", world.now() + Ms{200});
  flow.schedule(cancelled);
  EXPECT_EQ(flow.say({cancelled, event::Cancel{}, ByHand{"ann", {}}})->verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.depth("orders"), 1U) << "what was refused went out, what was answered did not";
  EXPECT_EQ(world.row(claimed).state, State::awaiting);
}

TEST_F(DispatchStory, ASuccessOfAnEarlierAttemptCallsBackTheCopyThatIsHeldBack) {
  const TaskId id = held_back([](Task& task) { task.attempt = 1; });
  EXPECT_EQ(world.row(id).attempt, 2);
  ASSERT_EQ(flow.say({id, event::Succeeded{1}})->verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  EXPECT_TRUE(flow.dispatch.idle());
  EXPECT_FALSE(flow.shards.in_use(5));
}

// Of many tasks only the attempts say that they are claimed; what is not confirmed soon is in the rows, too.
TEST_F(DispatchStory, ShortClaimsThatAreNotConfirmedAreWrittenAfterASecond) {
  flow.broker.hold_confirms();
  std::vector<TaskId> ids;
  for (std::size_t i = 0; i < kShortClaims; ++i)  // a queue that has answered nothing yet gets 16
    ids.push_back(world.insert(i % 2 == 0 ? "orders" : "invoices", world.now()));
  flow.hand_over(ids);
  world.loop.run_for(Ms{900});
  flow.dispatch.tick();
  ASSERT_EQ(flow.broker.depth("orders") + flow.broker.depth("invoices"), ids.size());
  for (const TaskId id : ids) {
    EXPECT_EQ(world.row(id).state, State::scheduled);
    EXPECT_EQ(world.eyes->history(id).size(), 1U);
  }
  world.loop.run_for(Ms{200});
  flow.dispatch.tick();
  world.loop.run_for(Ms{5});
  for (const TaskId id : ids) EXPECT_EQ(world.row(id).state, State::publishing);
  flow.broker.release_confirms();
  world.loop.run_for(Ms{100});
  for (const TaskId id : ids) {
    EXPECT_EQ(world.row(id).state, State::awaiting);
    EXPECT_EQ(world.row(id).attempt, 1);
  }
  EXPECT_TRUE(flow.dispatch.idle());
}

TEST_F(DispatchStory, APublishThatIsLostGoesOutAgainUnderTheSameAttempt) {
  const TaskId id = world.insert("orders", world.now());
  flow.broker.lose_next(1, true);
  flow.hand_over(id);
  world.loop.run_for(Ms{100});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1, 1}));
  EXPECT_EQ(world.row(id).attempt, 1);
  EXPECT_EQ(world.eyes->history(id).size(), 1U);
}

TEST_F(DispatchStory, ARefusalOfTheBrokerCostsNoAttemptAndWaitsFiveSeconds) {
  const TaskId id = world.insert("orders", world.now());
  flow.broker.nack_next(1);
  flow.hand_over(id);
  world.loop.run_for(Ms{4900});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  EXPECT_EQ(world.row(id).state, State::scheduled);
  EXPECT_TRUE(world.eyes->history(id).empty());
  world.loop.run_for(Ms{200});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
}

// The simulator's find: its consumer had attempt 1, whose number the refused repeat took back.
TEST_F(DispatchStory, ARefusedRepeatKeepsTheAttemptThatMayBeInTheQueue) {
  const TaskId id = world.insert("orders", world.now());
  flow.broker.lose_next(1, true);
  flow.broker.nack_next(1);
  flow.hand_over(id);
  world.loop.run_for(Ms{100});
  ASSERT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
  EXPECT_EQ(world.row(id).state, State::publishing);
  EXPECT_EQ(world.row(id).attempt, 1);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1, 1})) << "after the pause, under the same number";
  EXPECT_EQ(world.row(id).state, State::awaiting);
}

TEST_F(DispatchStory, WhatWasClaimedUnderALeaseThatWasLostIsNotPublished) {
  Flow brief(world, {.name = "brief", .lease = Ms{150}});
  flow.shards.leave([] {});
  brief.take_shards();
  const TaskId id = world.insert("orders", world.now() + Ms{95});
  brief.hand_over(id);
  world.loop.run_for(Ms{30});
  ASSERT_EQ(world.row(id).state, State::publishing);
  // Somebody else had them meanwhile: the next cycle finds its leases gone, and takes the shards again.
  world.eyes->acquire(brief.shards.node(), Flow::kIncarnation, std::vector<int>{5}, Ms{150}, 0);
  world.loop.run_for(Ms{300});
  EXPECT_TRUE(brief.shards.held(5));
  EXPECT_EQ(brief.broker.depth("orders"), 0U) << "another may have gone on with it";
  EXPECT_TRUE(brief.dispatch.idle());
  brief.hand_over(id);
  world.loop.run_for(Ms{100});
  EXPECT_EQ(brief.broker.depth("orders"), 0U) << "only due_again() repeats a claim";
  brief.dispatch.due_again({brief.names.item(world.row(id), world.now())});
  world.loop.run_for(Ms{100});
  EXPECT_EQ(brief.attempts_in("orders"), (std::vector<int>{1}));
}

// B6: the rate is the queue's, not each instance's.
TEST_F(DispatchStory, CatchUpIsDividedByShares) {
  world.rules = story_rules(100);
  Flow other(world, {.name = "b"});
  other.take_shards(kShards / 2);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.shards.count() == kShards / 2; }));
  for (Flow* each : {&flow, &other}) {
    each->dispatch.open(false);
    each->dispatch.open(true);  // what was due before is overdue
    for (int i = 0; i < 400; ++i) {
      const auto shards = each->shards.list();
      each->hand_over(world.insert("orders", world.now() - Ms{10'000}, shards[0]));
    }
  }
  world.loop.run_for(Ms{2000});
  const std::size_t published = flow.broker.depth("orders") + other.broker.depth("orders");
  EXPECT_GE(published, 180U);
  EXPECT_LE(published, 240U) << "100 a second, by both together";
}

// tests/simulation --seed 39: a claim of a handful was put off while more waited, and here every claim is
// one.
TEST(DispatchWithASmallWindow, ClaimsAllThatIsDue) {
  World world;
  Flow flow(world, {.max_unconfirmed = 8});
  flow.take_shards();
  std::vector<TaskId> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(world.insert("orders", world.now()));
  for (const TaskId id : ids) flow.hand_over(id);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.broker.depth("orders"), 100U);
}

TEST_F(DispatchStory, AMessageThatCannotBeReadFailsNoOthersOfItsBatch) {
  constexpr std::size_t kTasks = 300;
  std::vector<TaskId> ids;
  for (std::size_t i = 0; i < kTasks; ++i) ids.push_back(world.insert("orders", world.now()));
  const TaskId bad = ids[123];
  world.db->make_unreadable(bad);
  flow.hand_over(ids);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.broker.depth("orders") == kTasks - 1; }));
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(bad).state == State::parked; }));
  EXPECT_NE(world.row(bad).last_error.find("a message cannot be read"), std::string::npos);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.dispatch.idle(); }));
  world.loop.run_for(Ms{100});
  for (const TaskId id : ids) {
    if (id == bad) continue;
    ASSERT_EQ(world.row(id).state, State::awaiting);
  }
}

// Its row was changed by hand, for example. With its claim, or later, when there is room.
TEST_F(DispatchStory, AStoredBodyThatIsNotTheMessagesIsNotPublished) {
  const auto large = [](Task& task) { task.body_bytes = 17 * 1024 * 1024; };
  const auto damaged = [](Task& task) { task.digest = message_digest({{}, {}, "the whole body"}); };
  const TaskId first = world.insert("orders", world.now(), 5, damaged),
               good = world.insert("orders", world.now(), 5, large),
               later = world.insert("orders", world.now(), 5, damaged);
  flow.hand_over({first, good, later});
  for (const TaskId bad : {first, later}) {
    ASSERT_TRUE(world.loop.run_until([&] { return world.row(bad).state == State::parked; }));
    EXPECT_NE(world.row(bad).last_error.find("its body of 4 bytes is not that of the message"),
              std::string::npos)
        << world.row(bad).last_error;
  }
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(good).state == State::awaiting; }));
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
}

// Of four, one fails for good: found by halves, as if it were the first, after the claim with its messages.
TEST_F(DispatchStory, AClaimThatFailsForGoodFailsNoOthersOfItsBatch) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(world.insert("orders", world.now()));
  flow.jobs.by_hand(Lane::flow);
  flow.hand_over(ids);
  ASSERT_TRUE(world.loop.run_until([&] { return flow.jobs.waiting(Lane::flow) == 1; }));
  world.db->fail_next(4, Error::Kind::permanent);
  ASSERT_TRUE(flow.jobs.run_next(Lane::flow));
  flow.jobs.by_itself(Lane::flow);
  EXPECT_TRUE(world.loop.run_until([&] { return flow.broker.depth("orders") == 3; }));
  world.loop.run_for(Ms{50});
  const auto scheduled =
      std::ranges::count_if(ids, [&](TaskId id) { return world.row(id).state == State::scheduled; });
  EXPECT_EQ(scheduled, 1);
}

// ---- Which tasks are in the heap, which stay in the database, and that none is late.

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
