// Tasks of queues with rates wait for tokens: what that costs, and that instances share a rate.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kOneSecond{1000};

// `count` queues, orders and orders-1 ..., with this gate.
RuleBookPtr all_gated(const GateRules& gate, int count = 1) {
  QueueRules rules{
      .ladder = "default", .silence = {Silence::Means::failure, Ms{3'600'000}}, .catch_up = 1000};
  RuleBook::Queues queues;
  const QueueRules defaults = rules;
  rules.gate = gate;
  for (int i = 0; i < count; ++i) queues["orders" + (i == 0 ? "" : "-" + std::to_string(i))] = rules;
  return std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}, Ms{2000}, Ms{5000}})}}, queues,
      RuleBook::Tags{}, defaults);
}

GateRules rate_of(double per_second) {
  GateRules gate;
  gate.rate = per_second;
  return gate;
}

class ThrottleStory : public testing::Test {
 protected:
  void begin(RuleBookPtr rules) {
    world.rules = std::move(rules);
    flow = std::make_unique<Flow>(world);
    for (const auto& [queue, gate] : world.rules->queues()) flow->broker.declare(queue);
    flow->take_shards();
    start(*flow);
  }
  static void start(Flow& instance) {
    instance.janitor.start();
    instance.gates.start();
    instance.world.loop.run_for(Ms{100});
  }
  static Flow::Options second() {
    Flow::Options options;
    options.name = "b";
    return options;
  }
  // Until it has half of them.
  void share_shards(Flow& other) {
    start(other);
    other.shards.start();
    EXPECT_TRUE(world.loop.run_until([&] { return other.shards.count() == kShards / 2; }));
  }
  TaskId scheduled(const std::string& queue, Ms delay, const std::string& tenant = "") {
    const TaskId id = world.insert(queue, world.now() + delay, 5, [&](Task& task) {
      if (!tenant.empty()) task.rule_headers = {{"tenant", tenant}};
    });
    flow->schedule(id);
    return id;
  }
  std::size_t sent(const std::string& queue = "orders") const { return flow->broker.contents(queue).size(); }
  // Of the flow. Call it the first time when no sweep is needed any more: it ends the poll, whose jobs would
  // count.
  std::size_t jobs() {
    flow->janitor.stop();
    return flow->jobs.submitted(Lane::flow);
  }

  World world;
  std::unique_ptr<Flow> flow;
};

// A bucket begins as if it had been used at the last full minute, which was 40 s before.
TEST_F(ThrottleStory, AnIdleRateCostsNothing) {
  begin(all_gated(rate_of(1.0 / 60), 100));
  for (const auto& [queue, gate] : world.rules->queues()) {
    for (int i = 0; i < 5; ++i) scheduled(queue, Ms{100});
  }
  world.loop.run_for(kOneSecond * 25);
  for (const auto& [queue, gate] : world.rules->queues()) EXPECT_EQ(sent(queue), 1U);
  const std::size_t before = jobs();
  world.loop.run_for(kOneSecond * 50);
  EXPECT_EQ(jobs() - before, 0U) << "nothing can go out before the minute is over";
  world.loop.run_for(kOneSecond * 70);
  for (const auto& [queue, gate] : world.rules->queues()) EXPECT_EQ(sent(queue), 3U);
  EXPECT_LT(jobs() - before, 100U) << "the claims and confirms of two tasks of 100 queues: together";
  EXPECT_EQ(flow->dispatch.held(), 200U);
}

TEST_F(ThrottleStory, LostAnswersExceedNoRate) {
  begin(all_gated(rate_of(20)));
  for (int i = 0; i < 400; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kOneSecond);
  const std::size_t before = sent();
  for (int i = 0; i < 20; ++i) {
    world.db->lose_next_answers(1);
    world.loop.run_for(Ms{500});
  }
  EXPECT_LE(sent() - before, 205U);
  const std::size_t after = sent();
  world.loop.run_for(kOneSecond * 5);
  EXPECT_NEAR(static_cast<double>(sent() - after), 100, 6) << "and then goes on";
}

TEST_F(ThrottleStory, ATaskThatIsCancelledLeavesItsTokenToTheNext) {
  begin(all_gated(rate_of(1)));
  scheduled("orders", Ms{100});
  const TaskId gone = world.insert("orders", world.now() + Ms{110}, 7);
  const TaskId next = world.insert("orders", world.now() + Ms{120}, 5);
  flow->schedule(gone);
  flow->schedule(next);
  world.loop.run_for(kOneSecond);
  ASSERT_EQ(sent(), 1U);
  ASSERT_TRUE(flow->say({gone, event::Cancel{}, ByHand{"ann", {}}}));
  world.loop.run_for(kOneSecond);
  EXPECT_EQ(world.row(next).attempt, 1);
}

TEST_F(ThrottleStory, AStepOfTheDatabasesClockStopsNothing) {
  begin(all_gated(rate_of(20)));
  for (int i = 0; i < 1000; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kOneSecond * 2);
  for (const Ms step : {Ms{-3'600'000}, Ms{3'600'000}}) {
    world.db->set_now(world.db->now() + step);
    for (int i = 0; i < 100; ++i) {
      world.loop.run_for(Ms{100});
      world.db->advance(Ms{100});
    }
    // Those from before a step back are not due any more.
    for (int i = 0; i < 200; ++i) {
      const TaskId id = world.insert("orders", world.db->now() + Ms{100});
      flow->schedule(id);
    }
    const std::size_t before = sent();
    for (int i = 0; i < 50; ++i) {
      world.loop.run_for(Ms{100});
      world.db->advance(Ms{100});
    }
    EXPECT_NEAR(static_cast<double>(sent() - before), 100, 12) << step.count();
  }
}

TEST_F(ThrottleStory, TwoInstancesShareARateAndNeitherStarves) {
  begin(all_gated(rate_of(20)));
  Flow other(world, second());
  share_shards(other);
  for (int i = 0; i < 600; ++i) world.insert("orders", world.now() + Ms{1000}, i % kShards);
  world.loop.run_for(kOneSecond * 3);
  const auto both = [&] { return std::pair(sent(), other.broker.contents("orders").size()); };
  const auto before = both();
  world.loop.run_for(kOneSecond * 10);
  const auto after = both();
  const std::size_t mine = after.first - before.first, others = after.second - before.second;
  EXPECT_NEAR(static_cast<double>(mine + others), 200, 4);
  EXPECT_NEAR(static_cast<double>(mine), 100, 4) << "each has half of the shards";
}

TEST_F(ThrottleStory, TasksWithoutAValueShareOneRate) {
  GateRules gate;
  gate.rate_by = RateBy{"tenant", 5};
  begin(all_gated(gate));
  for (int i = 0; i < 100; ++i) scheduled("orders", Ms{100});
  const TaskId other = scheduled("orders", Ms{100}, "a");
  world.loop.run_for(kOneSecond * 4);
  EXPECT_NEAR(static_cast<double>(sent()), 2 + 4 * 5, 2);
  EXPECT_EQ(world.row(other).attempt, 1);
}

// As when the process stops during an outage.
TEST_F(ThrottleStory, AClaimThatFailsLeavesItsTokenToTheNext) {
  begin(all_gated(rate_of(1)));
  flow->janitor.stop();  // its jobs would count
  flow->jobs.by_hand(Lane::flow);
  for (int i = 0; i < 3; ++i) scheduled("orders", Ms{100});
  ASSERT_TRUE(world.loop.run_until([&] { return flow->jobs.waiting(Lane::flow) == 1; }, kOneSecond * 2));
  ASSERT_EQ(flow->dispatch.held(), 2U);
  world.db->fail_next(1);
  ASSERT_TRUE(flow->jobs.run_next());  // the claim
  flow->jobs.stop();
  world.loop.run_for(Ms{50});
  EXPECT_EQ(flow->dispatch.held(), 1U) << "the second one may go";
}

}  // namespace
}  // namespace rung::bridge
