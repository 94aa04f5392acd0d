// Rates in the flow, of a queue, of the values of a header, and of the queues of a pattern; and windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct RateStory : GateStory {
  RateStory() { begin({.rate = 20}); }
};

TEST_F(GateStory, ARateIsNotExceededWhileTheFlowGrowsAgain) {
  GateRules gate = with_breaker();
  gate.breaker->open_after = gate.breaker->close_after = 1;
  gate.rate = 1.0 / 60;
  begin(gate);
  const TaskId first = scheduled("orders", Ms{10});
  world.loop.run_for(kSecond * 20);
  fails(first);
  world.loop.run_for(Ms{300});
  world.run_until(*breaker().until + Ms{600});
  ASSERT_THAT(sent(), SizeIs(2)) << "a probe";
  succeeds(first);
  world.loop.run_for(Ms{300});
  ASSERT_EQ(breaker().state, Breaker::State::closed);
  for (int i = 0; i < 10; ++i) scheduled("orders", Ms{10});
  world.loop.run_for(kSecond * 15);
  EXPECT_THAT(sent(), SizeIs(2)) << "the next one goes a minute after the first";
  world.loop.run_for(kSecond * 20);
  EXPECT_THAT(sent(), SizeIs(3));
}

TEST_F(RateStory, TasksGoOutAtTheRateOldestFirst) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(scheduled("orders", Ms{100 + i}));
  const TaskId other = scheduled("invoices", Ms{100});
  world.loop.run_for(Ms{10'400});
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  const auto gone = sent();
  EXPECT_NEAR(static_cast<double>(gone.size()), 205, 10);
  EXPECT_EQ(gone, std::vector<TaskId>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(gone.size())));
  EXPECT_EQ(world.row(ids.back()).attempt, 0);
  EXPECT_NEAR(static_cast<double>(flow->dispatch.held()), static_cast<double>(300 - gone.size()), 2);
  EXPECT_EQ(world.gate("orders").state, "rate_limited");
  EXPECT_EQ(world.gate("orders").reason, "rate 20/s");
}

TEST_F(RateStory, TimeWaitedForTheRateIsNotCounted) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(scheduled("orders", Ms{100}));
  world.loop.run_for(kSecond * 6);
  Ms longest{0};
  for (const TaskId id : ids) longest = std::max(longest, world.row(id).uncounted_time);
  EXPECT_NEAR(static_cast<double>(longest.count()), 4800, 300);
}

TEST_F(RateStory, AReloadThatRemovesTheRateLetsAllGo) {
  for (int i = 0; i < 200; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond);
  world.rules = gated({});
  world.loop.run_for(kSecond);
  EXPECT_THAT(sent(), SizeIs(200));
}

TEST_F(RateStory, APausedQueueSavesUpNothing) {
  for (int i = 0; i < 200; ++i) scheduled("orders", Ms{2000});
  world.pause("orders");
  world.loop.run_for(kSecond * 10);
  EXPECT_THAT(sent(), IsEmpty());
  world.resume("orders");
  world.loop.run_for(Ms{5600});
  EXPECT_NEAR(static_cast<double>(sent().size()), 105, 12);
}

struct TenantStory : GateStory {
  TenantStory() { begin({.rate_by = RateBy{"tenant", 5}}); }
};

TEST_F(TenantStory, ASlowTenantDelaysNoOther) {
  for (int i = 0; i < 900; ++i) scheduled("orders", Ms{100}, "slow");  // more than one request takes
  world.loop.run_for(kSecond * 3);
  std::vector<TaskId> others;
  for (int i = 0; i < 20; ++i) others.push_back(scheduled("orders", Ms{300}, "tenant" + std::to_string(i)));
  others.push_back(scheduled("orders", Ms{300}));
  world.loop.run_for(kSecond * 7);
  for (const TaskId id : others) {
    const auto history = world.eyes->history(id);
    ASSERT_THAT(history, SizeIs(1));
    EXPECT_LE(*history.front().attempt.published_at - history.front().attempt.due_at, Ms{100});
  }
  EXPECT_NEAR(static_cast<double>(sent().size() - others.size()), 50, 3);
}

// The queue has a rate as well, for which its values compete.
TEST_F(TenantStory, ATenantWithABacklogSharesTheQueuesRate) {
  world.rules = gated({.rate = 6, .rate_by = RateBy{"tenant", 5}});
  for (int i = 0; i < 300; ++i) scheduled("orders", Ms{100}, "large");
  std::vector<TaskId> small;
  for (int i = 0; i < 30; ++i) small.push_back(scheduled("orders", Ms{110}, "small"));
  world.loop.run_for(kSecond * 10);
  EXPECT_NEAR(static_cast<double>(sent().size()), 60, 3);
  const auto gone = std::ranges::count_if(small, [&](TaskId id) { return world.row(id).attempt == 1; });
  EXPECT_NEAR(static_cast<double>(gone), 29, 3);
}

TEST_F(TenantStory, ATaskWhoseHeaderIsBeingReadIsNotForgotten) {
  world.pause("orders");
  world.loop.run_for(kSecond);
  flow->jobs.by_hand(Lane::flow);
  const TaskId id = scheduled("orders", Ms{100}, "a");
  world.loop.run_for(kSecond * 5);
  ASSERT_TRUE(flow->jobs.run_next(Lane::flow));
  world.loop.run_for(kSecond * 5);
  world.resume("orders");
  for (int i = 0; i < 50; ++i) {
    world.loop.run_for(Ms{100});
    while (flow->jobs.run_next(Lane::flow)) {
    }
  }
  EXPECT_EQ(sent(), std::vector<TaskId>{id});
}

// A bucket begins as if it had been used at the last full minute, which was 40 s before.
TEST_F(GateStory, AnIdleRateCostsNothing) {
  begin(gated({.rate = 1.0 / 60}, 100));
  for (const auto& [queue, gate] : world.rules->queues()) {
    for (int i = 0; i < 5; ++i) scheduled(queue, Ms{100});
  }
  world.loop.run_for(kSecond * 25);
  for (const auto& [queue, gate] : world.rules->queues()) EXPECT_EQ(sent(queue).size(), 1U);
  flow->janitor.stop();  // no sweep is needed any more, and its jobs would count
  const auto jobs = [&] { return flow->jobs.submitted(Lane::flow); };
  const std::size_t before = jobs();
  world.loop.run_for(kSecond * 50);
  EXPECT_EQ(jobs() - before, 0U) << "nothing can go out before the minute is over";
  world.loop.run_for(kSecond * 70);
  for (const auto& [queue, gate] : world.rules->queues()) EXPECT_EQ(sent(queue).size(), 3U);
  EXPECT_LT(jobs() - before, 100U) << "the claims and confirms of two tasks of 100 queues: together";
  EXPECT_EQ(flow->dispatch.held(), 200U);
}

TEST_F(RateStory, LostAnswersExceedNoRate) {
  for (int i = 0; i < 400; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond);
  const std::size_t before = sent().size();
  for (int i = 0; i < 20; ++i) {
    world.db->lose_next_answers(1);
    world.loop.run_for(Ms{500});
  }
  EXPECT_LE(sent().size() - before, 205U);
  const std::size_t after = sent().size();
  world.loop.run_for(kSecond * 5);
  EXPECT_NEAR(static_cast<double>(sent().size() - after), 100, 6) << "and then goes on";
}

TEST_F(RateStory, AStepOfTheDatabasesClockStopsNothing) {
  for (int i = 0; i < 1000; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 2);
  for (const Ms step : {Ms{-3'600'000}, Ms{3'600'000}}) {
    world.db->set_now(world.db->now() + step);
    for (int i = 0; i < 100; ++i) {
      world.loop.run_for(Ms{100});
      world.db->advance(Ms{100});
    }
    // Those from before a step back are not due any more.
    for (int i = 0; i < 200; ++i) flow->schedule(world.insert("orders", world.db->now() + Ms{100}));
    const std::size_t before = sent().size();
    for (int i = 0; i < 50; ++i) {
      world.loop.run_for(Ms{100});
      world.db->advance(Ms{100});
    }
    EXPECT_NEAR(static_cast<double>(sent().size() - before), 100, 12) << step.count();
  }
}

TEST_F(RateStory, TwoInstancesShareARateAndNeitherStarves) {
  Flow other(world, {.name = "b"});
  start(other);
  other.shards.start();
  ASSERT_TRUE(world.loop.run_until([&] { return other.shards.count() == kShards / 2; }));
  for (int i = 0; i < 600; ++i) world.insert("orders", world.now() + Ms{1000}, i % kShards);
  world.loop.run_for(kSecond * 3);
  const auto both = [&] { return std::pair(sent().size(), other.broker.contents("orders").size()); };
  const auto before = both();
  world.loop.run_for(kSecond * 10);
  const auto after = both();
  const std::size_t mine = after.first - before.first, others = after.second - before.second;
  EXPECT_NEAR(static_cast<double>(mine + others), 200, 4);
  EXPECT_NEAR(static_cast<double>(mine), 100, 4) << "each has half of the shards";
}

TEST_F(TenantStory, TasksWithoutAValueShareOneRate) {
  for (int i = 0; i < 100; ++i) scheduled("orders", Ms{100});
  const TaskId other = scheduled("orders", Ms{100}, "a");
  world.loop.run_for(kSecond * 4);
  EXPECT_NEAR(static_cast<double>(sent().size()), 2 + 4 * 5, 2);
  EXPECT_EQ(world.row(other).attempt, 1);
}

// As when the process stops during an outage.
TEST_F(GateStory, AClaimThatFailsLeavesItsTokenToTheNext) {
  begin({.rate = 1});
  flow->janitor.stop();  // its jobs would count
  flow->jobs.by_hand(Lane::flow);
  for (int i = 0; i < 3; ++i) scheduled("orders", Ms{100});
  ASSERT_TRUE(world.loop.run_until([&] { return flow->jobs.waiting(Lane::flow) == 1; }, kSecond * 2));
  ASSERT_EQ(flow->dispatch.held(), 2U);
  world.db->fail_next(1);
  ASSERT_TRUE(flow->jobs.run_next());  // the claim
  flow->jobs.stop();
  world.loop.run_for(Ms{50});
  EXPECT_EQ(flow->dispatch.held(), 1U) << "the second one may go";
}

TEST_F(GateStory, EachQueueThatMatchesAPatternHasAGateOfItsOwn) {
  begin(gated_by_pattern({.rate = 1}));
  for (const char* queue : {"orders.a", "orders.b"}) flow->broker.declare(queue);
  for (int i = 0; i < 30; ++i) scheduled("orders.a", Ms{100});
  for (int i = 0; i < 3; ++i) scheduled("orders.b", Ms{100});
  for (int i = 0; i < 10; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_NEAR(static_cast<double>(sent("orders.a").size()), 5, 1);
  EXPECT_THAT(sent("orders.b"), SizeIs(3)) << "a rate of its own";
  EXPECT_THAT(sent("orders"), SizeIs(10)) << "does not match";
}

using WindowStory = GateStory;

TEST_F(WindowStory, TasksWaitOutsideTheWindow) {
  begin({.window = std::make_shared<const TimeWindow>(
             TimeWindow::parse({"08:00-08:30", "09:00-18:00"}, "UTC").value())});
  const auto in_day = [&] { return Ms{world.now().ms % 86'400'000}; };
  const Ms closes = kSecond * 60 * (8 * 60 + 30), opens = kSecond * 60 * 9 * 60;
  ASSERT_LT(in_day(), closes);
  world.loop.run_for(closes - in_day() + kSecond);
  const EpochMs closed = world.now() - kSecond;
  const TaskId late = scheduled("orders", kSecond), other = scheduled("invoices", kSecond);
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  const EpochMs due = *world.row(late).next_at, open = closed + (opens - closes);
  EXPECT_EQ(world.gate("orders").state, "outside_window");
  EXPECT_EQ(world.gate("orders").until, open);
  world.run_until(open - Ms{1});
  EXPECT_THAT(sent(), IsEmpty());
  world.run_until(open + Ms{100});
  EXPECT_EQ(sent(), std::vector<TaskId>{late});
  EXPECT_EQ(world.row(late).uncounted_time, open - due);
}

// ---- A consumer's retry-after for the whole queue.

class RetryAfterStory : public GateStory {
 protected:
  RetryAfterStory() { begin({.retry_after = {kSecond * 60, true}}); }
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
  const TaskId second = scheduled("orders", Ms{500});
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
  const TaskId second = scheduled("orders", Ms{500});
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), SizeIs(1));
  EXPECT_TRUE(world.eyes->resume("orders", "ann", "").retry_after);
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
  const auto hold = world.eyes->gate_states().at(0).retry_after;
  ASSERT_TRUE(hold);
  EXPECT_GE(hold->until - hold->since, Ms{29'990});
  EXPECT_EQ(hold->reason, "task " + ids.back().str() + " asked for 29s990ms");
}

}  // namespace
}  // namespace rung::bridge
