// Rates in the flow, of a queue, of the values of a header, and of the queues of a pattern.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

GateRules with_rate(double rate) {
  GateRules gate;
  gate.rate = rate;
  return gate;
}

class RateStory : public GateStory {
 protected:
  RateStory() : GateStory(with_rate(20)) {}
};

class SlowRateStory : public GateStory {
 protected:
  SlowRateStory() : GateStory(rules()) {}
  static GateRules rules() {
    GateRules gate = with_breaker();
    gate.breaker->open_after = gate.breaker->close_after = 1;
    gate.rate = 1.0 / 60;
    return gate;
  }
};

TEST_F(SlowRateStory, IsNotExceededWhileTheFlowGrowsAgain) {
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
  ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""}));
  world.loop.run_for(kSecond * 10);
  EXPECT_THAT(sent(), IsEmpty());
  ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any());
  world.loop.run_for(Ms{5600});
  EXPECT_NEAR(static_cast<double>(sent().size()), 105, 12);
}

TEST_F(RateStory, WithoutTheBrokerNothingIsSavedUp) {
  flow->dispatch.open(false);
  for (int i = 0; i < 300; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 10);
  flow->dispatch.open(true);
  world.loop.run_for(kSecond);
  EXPECT_LE(sent().size(), 30U) << "20, and a burst";
}

GateRules by_tenant() {
  GateRules gate;
  gate.rate_by = RateBy{"tenant", 5};
  return gate;
}

class TenantStory : public GateStory {
 protected:
  TenantStory() : GateStory(by_tenant()) {}
};

TEST_F(TenantStory, ASlowTenantDelaysNoOther) {
  for (int i = 0; i < 900; ++i) scheduled("orders", Ms{100}, "slow");  // more than one request takes
  world.loop.run_for(kSecond * 3);
  std::vector<TaskId> others;
  for (int i = 0; i < 20; ++i) others.push_back(scheduled("orders", Ms{300}, "tenant" + std::to_string(i)));
  others.push_back(scheduled("orders", Ms{300}));
  world.loop.run_for(kSecond * 7);
  for (const TaskId id : others) {
    const auto history = world.eyes->history(id).value();
    ASSERT_THAT(history, SizeIs(1));
    EXPECT_LE(*history.front().attempt.published_at - history.front().attempt.due_at, Ms{100});
  }
  EXPECT_NEAR(static_cast<double>(sent().size() - others.size()), 50, 3);
}

// The queue has a rate as well, for which its values compete.
TEST_F(TenantStory, ATenantWithABacklogSharesTheQueuesRate) {
  GateRules gate = by_tenant();
  gate.rate = 6;
  world.rules = gated(gate);
  for (int i = 0; i < 300; ++i) scheduled("orders", Ms{100}, "large");
  std::vector<TaskId> small;
  for (int i = 0; i < 30; ++i) small.push_back(scheduled("orders", Ms{110}, "small"));
  world.loop.run_for(kSecond * 10);
  EXPECT_NEAR(static_cast<double>(sent().size()), 60, 3);
  const auto gone = std::ranges::count_if(small, [&](TaskId id) { return world.row(id).attempt == 1; });
  EXPECT_NEAR(static_cast<double>(gone), 29, 3);
}

TEST_F(TenantStory, ATaskWhoseHeaderIsBeingReadIsNotForgotten) {
  ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""}));
  world.loop.run_for(kSecond);
  flow->jobs.by_hand(Lane::flow);
  const TaskId id = scheduled("orders", Ms{100}, "a");
  world.loop.run_for(kSecond * 5);
  ASSERT_TRUE(flow->jobs.run_next(Lane::flow));
  world.loop.run_for(kSecond * 5);
  ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any());
  for (int i = 0; i < 50; ++i) {
    world.loop.run_for(Ms{100});
    while (flow->jobs.run_next(Lane::flow)) {
    }
  }
  EXPECT_EQ(sent(), std::vector<TaskId>{id});
}

class PatternRateStory : public GateStory {
 protected:
  PatternRateStory() : GateStory(gated_by_pattern(with_rate(1))) {
    for (const char* queue : {"orders.a", "orders.b"}) flow->broker.declare(queue);
  }
};

TEST_F(PatternRateStory, EachQueueThatMatchesHasAGateOfItsOwn) {
  for (int i = 0; i < 30; ++i) scheduled("orders.a", Ms{100});
  for (int i = 0; i < 3; ++i) scheduled("orders.b", Ms{100});
  for (int i = 0; i < 10; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_NEAR(static_cast<double>(sent("orders.a").size()), 5, 1);
  EXPECT_THAT(sent("orders.b"), SizeIs(3)) << "a rate of its own";
  EXPECT_THAT(sent("orders"), SizeIs(10)) << "does not match";
}

}  // namespace
}  // namespace rung::bridge
