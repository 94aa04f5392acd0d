// What is counted by queue, and the deliveries in hand.
#include "src/bridge/base/flow_counts.h"

#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using Ended = FlowCounts::Ended;
using How = PublishResult::How;

RuleBookPtr rules_of(const std::vector<std::string>& queues) {
  RuleBook::Queues named;
  for (const std::string& queue : queues) named[queue] = QueueRules{.ladder = "default", .silence = {}};
  return std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                    named);
}

Task task_of(const std::string& queue, State state = State::scheduled) {
  Task task;
  task.queue = queue;
  task.state = state;
  return task;
}

TEST(FlowCounts, OnlyConfiguredQueuesHaveTheirOwn) {
  FlowCounts counts(rules_of({"orders"}));
  for (const char* queue : {"orders", "a", "b", ""}) counts.inserted(task_of(queue));
  EXPECT_EQ(counts.by_queue().size(), 2U);
  EXPECT_EQ(counts.by_queue().at("orders").taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().at(FlowCounts::kOther).taken_in[0], 3);
  // After a reload: the new one is counted, and the one that is gone keeps what it has.
  counts.configure(rules_of({"a"}));
  counts.inserted(task_of("a"));
  counts.inserted(task_of("orders"));
  EXPECT_EQ(counts.by_queue().at("a").taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().at("orders").taken_in[0], 2);
  EXPECT_EQ(counts.by_queue().at(FlowCounts::kOther).taken_in[0], 3);
}

TEST(FlowCounts, AQueueThatMatchesAPatternHasItsOwnUpToABound) {
  RuleBook::Patterns patterns;
  patterns.push_back({QueuePattern("orders.*"), {}});
  FlowCounts counts(
      std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                 RuleBook::Queues{}, RuleBook::Tags{}, QueueRules{}, TargetRules{},
                                 RuleBook::RuleLists{}, std::make_shared<const ErrorQueues>(), patterns));
  constexpr std::size_t kMore = 10;
  for (std::size_t i = 0; i < FlowCounts::kMostMatched + kMore; ++i)
    counts.inserted(task_of("orders." + std::to_string(i)));
  counts.inserted(task_of("invoices"));
  EXPECT_EQ(counts.by_queue().at("orders.7").taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().at("orders.*").taken_in[0], static_cast<std::int64_t>(kMore));
  EXPECT_EQ(counts.by_queue().at(FlowCounts::kOther).taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().size(), FlowCounts::kMostMatched + 2);
}

TEST(FlowCounts, WhatIsParkedOnArrivalIsFinished) {
  FlowCounts counts(rules_of({"orders"}));
  Task delay = task_of("orders", State::parked);
  delay.kind = Kind::delay;
  counts.inserted(delay);
  auto orders = counts.by_queue().at("orders");
  EXPECT_EQ(orders.taken_in[1], 1);
  EXPECT_EQ(orders[State::parked], 1);
}

TEST(FlowCounts, Publishes) {
  FlowCounts counts(rules_of({"orders"}));
  counts.published(task_of("orders"), How::confirmed, Ms{1500}, Ms{0});
  counts.published(task_of("orders"), How::confirmed, Ms{-3}, Ms{0});
  counts.published(task_of("orders"), How::lost, Ms{9000}, Ms{0});
  auto orders = counts.by_queue().at("orders");
  EXPECT_EQ(orders[How::confirmed], 2);
  EXPECT_EQ(orders[How::lost], 1);
  EXPECT_EQ(orders.late.sum, 1.5);
  EXPECT_EQ(orders.late.counts.front(), 1) << "not late at all";
}

// Through the flow: a ladder of three levels, climbed in virtual time.
TEST(FlowCounts, AClimbToTheTop) {
  World world;
  world.rules = rules_of({"orders"});
  Flow flow(world);
  flow.take_shards();
  ASSERT_TRUE(flow.put_failed("orders"));
  const auto orders = [&] { return flow.counts.by_queue().at("orders"); };
  ASSERT_TRUE(world.loop.run_until([&] { return orders()[How::confirmed] == 1; }));
  EXPECT_EQ(orders().taken_in[0], 1);
  const TaskId id = world.rows().at(0).task.id;
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
  flow.say({id, event::Failed{1, "boom", "", {}}});
  EXPECT_EQ(orders()[Ended::failed], 1);
  EXPECT_EQ(orders()[State::parked], 1);
  // A person sends it again; it succeeds by silence, and then its consumer reports the same.
  flow.say({id, event::Redrive{}});
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
  EXPECT_EQ(orders()[How::confirmed], 2);
  world.run_until(*world.row(id).next_at + Ms{1});
  flow.say({id, event::SilenceOver{}});
  EXPECT_EQ(orders()[Ended::presumed], 1);
  flow.say({id, event::Succeeded{2}});
  EXPECT_EQ(orders()[Ended::succeeded], 0);
  EXPECT_EQ(orders()[State::succeeded], 1);
}

TEST(Acks, HowLongNothingHasBeenAcked) {
  World world;
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, world.clock};
  Acks acks(broker, *world.clock);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(acks.stalled(), Ms{0});
  acks.received({1, 0}, 3);
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(acks.stalled(), Ms{2000});
  acks.add({{1, 0}, 1});
  acks.flush();
  EXPECT_EQ(acks.unacked(), 2U);
  world.loop.run_for(Ms{500});
  EXPECT_EQ(acks.stalled(), Ms{500});
  acks.requeue({{{1, 0}, 2}});
  acks.add({{1, 0}, 3});
  acks.flush();
  EXPECT_EQ(acks.unacked(), 0U);
  world.loop.run_for(Ms{500});
  EXPECT_EQ(acks.stalled(), Ms{0});
  // A new connection: what the old one had is delivered again.
  acks.received({1, 0}, 2);
  acks.received({2, 0}, 1);
  EXPECT_EQ(acks.unacked(), 1U);
  acks.add({{1, 0}, 4});
  EXPECT_EQ(acks.unacked(), 1U);
  acks.begin_session({3, 0});
  EXPECT_EQ(acks.stalled(), Ms{0});
  // While the intake pauses, deliveries of the session that has just ended may still be on their way.
  acks.received({2, 0}, 2);
  EXPECT_EQ(acks.unacked(), 0U);
}

TEST(Acks, AnIntakeThatProgressesDoesNotHideAnotherThatIsStuck) {
  World world;
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, world.clock};
  Acks acks(broker, *world.clock);
  acks.received({1, 0}, 1);
  acks.received({1, 1}, 2);
  world.loop.run_for(Ms{2000});
  acks.add({{1, 1}, 1});
  acks.flush();
  EXPECT_EQ(acks.unacked(), 2U);
  EXPECT_EQ(acks.stalled(), Ms{2000});
  acks.add({{1, 0}, 1});
  acks.flush();
  world.loop.run_for(Ms{500});
  EXPECT_EQ(acks.unacked(), 1U);
  EXPECT_EQ(acks.stalled(), Ms{500});
}

}  // namespace
}  // namespace rung::bridge
