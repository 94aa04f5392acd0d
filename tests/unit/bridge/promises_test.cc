// Promises of lateness: which deliveries keep theirs, and what of that reaches the database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bridge/upkeep/counts.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using How = PublishResult::How;

constexpr Ms kPromised{5000};
constexpr Ms kLong{60'000};

RuleBookPtr promising(const GateRules& gate = {}, std::optional<Ms> late_by = kPromised) {
  QueueRules rules;
  rules.silence = {Silence::Means::failure, Ms{3'600'000}};
  RuleBook::Queues queues{{"invoices", rules}};
  rules.gate = gate;
  rules.late_by = late_by;
  queues["orders"] = rules;
  return std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                    queues);
}

Task to(const std::string& queue) {
  Task task;
  task.queue = queue;
  return task;
}

// --- FlowCounts

TEST(PromisesCounted, FromTheDueTimeAndWithoutTheTimeBehindGates) {
  FlowCounts counts(promising());
  const auto deliver = [&](Ms late, Ms behind_gates) {
    counts.published(to("orders"), How::confirmed, late, behind_gates);
    return counts.by_queue().at("orders").promised;
  };
  EXPECT_EQ(deliver(kPromised, Ms{0}), (PromiseCounts{1, 0, 0}));
  EXPECT_EQ(deliver(kPromised + Ms{1}, Ms{0}), (PromiseCounts{1, 1, 0}));
  EXPECT_EQ(deliver(kLong, kLong - kPromised), (PromiseCounts{1, 1, 1})) << "late by the gate alone";
  EXPECT_EQ(deliver(kLong, kLong - kPromised - Ms{1}), (PromiseCounts{1, 2, 1})) << "and by us";
  EXPECT_EQ(deliver(Ms{10}, Ms{10}), (PromiseCounts{2, 2, 1})) << "a gate, and in time all the same";
  EXPECT_EQ(deliver(Ms{-3}, Ms{0}), (PromiseCounts{3, 2, 1}));
}

TEST(PromisesCounted, OnlyConfirmedDeliveriesOfQueuesThatHaveOne) {
  FlowCounts counts(promising());
  for (const How how : {How::returned, How::nacked, How::lost, How::fenced, How::rejected})
    counts.published(to("orders"), how, kLong, Ms{0});
  for (const char* queue : {"invoices", "elsewhere", ""})
    counts.published(to(queue), How::confirmed, kLong, Ms{0});
  for (const auto& [label, of] : counts.by_queue()) EXPECT_EQ(of.promised, PromiseCounts{}) << label;
}

TEST(PromisesCounted, AReloadChangesThePromiseAndForgetsNothing) {
  FlowCounts counts(promising());
  counts.published(to("orders"), How::confirmed, Ms{6000}, Ms{0});
  counts.configure(promising({}, Ms{10'000}));
  counts.published(to("orders"), How::confirmed, Ms{6000}, Ms{0});
  EXPECT_EQ(counts.by_queue().at("orders").promised, (PromiseCounts{1, 1, 0}));
  counts.configure(promising({}, std::nullopt));
  counts.published(to("orders"), How::confirmed, Ms{6000}, Ms{0});
  EXPECT_EQ(counts.by_queue().at("orders").promised, (PromiseCounts{1, 1, 0}));
}

TEST(PromisesCounted, QueuesOfPatternsAndDefaultsUnderTheirLabels) {
  QueueRules defaults, pattern, named;
  defaults.late_by = kLong;
  pattern.late_by = kPromised;
  RuleBook::Patterns patterns;
  patterns.push_back({QueuePattern("orders.*"), pattern});
  FlowCounts counts(std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
      RuleBook::Queues{{"without", named}}, RuleBook::Tags{}, defaults, TargetRules{}, RuleBook::RuleLists{},
      std::make_shared<const ErrorQueues>(), patterns));
  for (std::size_t i = 0; i <= FlowCounts::kMostMatched; ++i)
    counts.published(to("orders." + std::to_string(i)), How::confirmed, Ms{6000}, Ms{0});
  counts.published(to("any"), How::confirmed, Ms{6000}, Ms{0});
  counts.published(to("without"), How::confirmed, Ms{6000}, Ms{0});
  EXPECT_EQ(counts.by_queue().at("orders.7").promised, (PromiseCounts{0, 1, 0}));
  EXPECT_EQ(counts.by_queue().at("orders.*").promised, (PromiseCounts{0, 1, 0})) << "beyond the bound";
  EXPECT_EQ(counts.by_queue().at(FlowCounts::kOther).promised, (PromiseCounts{1, 0, 0}));
  EXPECT_EQ(counts.by_queue().at("without").promised, PromiseCounts{});
}

// --- through the flow

class PromiseStory : public testing::Test {
 protected:
  // `alone`: no sweeps and no looks at gates, which make an hour long.
  void begin(RuleBookPtr rules, bool alone = false) {
    world.rules = std::move(rules);
    flow = std::make_unique<Flow>(world);
    flow->take_shards();
    if (!alone) {
      flow->janitor.start();
      flow->gates.start();
    }
    jobs = std::make_unique<Jobs>(world.loop, flow->jobs, flow->shards);
    upkeep = std::make_unique<CountUpkeep>(*jobs, flow->clock, flow->counts, identity);
    world.loop.run_for(Ms{100});
  }
  void due_now(int count = 1) {
    for (int i = 0; i < count; ++i) flow->hand_over(world.insert("orders", world.now()));
  }
  void pause() { ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""})); }
  void resume() { ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any()); }
  PromiseCounts counted() { return flow->counts.by_queue().at("orders").promised; }
  std::vector<PromiseRow> stored() { return world.eyes->promises().value(); }

  const NodeIdentity identity{"a", "0", "here", Flow::kIncarnation};
  World world;
  std::unique_ptr<Flow> flow;
  std::unique_ptr<Jobs> jobs;
  std::unique_ptr<CountUpkeep> upkeep;
};

TEST_F(PromiseStory, WhatComesWhenItIsDueIsInTime) {
  begin(promising());
  due_now(3);
  world.loop.run_for(Ms{100});
  EXPECT_EQ(counted(), (PromiseCounts{3, 0, 0}));
}

TEST_F(PromiseStory, WhatAPauseHeldBackIsGated) {
  begin(promising());
  pause();
  world.loop.run_for(Ms{1000});
  due_now(3);
  world.loop.run_for(kLong);
  resume();
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(counted(), (PromiseCounts{0, 0, 3}));
}

TEST_F(PromiseStory, AfterThePauseTheTimeIsOurs) {
  begin(promising());
  pause();
  world.loop.run_for(Ms{1000});
  due_now();
  world.loop.run_for(kLong);
  flow->dispatch.open(false);
  resume();
  world.loop.run_for(kPromised + Ms{1000});
  flow->dispatch.open(true);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(counted(), (PromiseCounts{0, 1, 0}));
}

TEST_F(PromiseStory, AnOutageOfTheBrokerIsLate) {
  begin(promising());
  flow->dispatch.open(false);
  due_now(3);
  world.loop.run_for(kLong);
  flow->dispatch.open(true);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(counted(), (PromiseCounts{0, 3, 0}));
}

TEST_F(PromiseStory, WhatWaitedForItsTokenIsGated) {
  GateRules gate;
  gate.rate = 1;
  begin(promising(gate));
  due_now(20);
  world.loop.run_for(kLong);
  EXPECT_EQ(counted().late, 0);
  EXPECT_EQ(counted().in_time + counted().gated, 20);
  EXPECT_GE(counted().gated, 13);
}

// For /metrics, also without a promise: what a user's own gate holds back is not late.
TEST_F(PromiseStory, LatenessIsWithoutTheTimeBehindGates) {
  GateRules gate;
  gate.rate = 1;
  begin(promising(gate, std::nullopt));
  due_now(20);
  world.loop.run_for(kLong);
  const FlowCounts::Queue& orders = flow->counts.by_queue().at("orders");
  ASSERT_EQ(orders.published[static_cast<std::size_t>(How::confirmed)], 20);
  EXPECT_LT(orders.late.sum, 5);
}

TEST_F(PromiseStory, AnOutageIsLateForAQueueWithARateToo) {
  GateRules gate;
  gate.rate = 1;
  begin(promising(gate));
  flow->dispatch.open(false);
  due_now(5);
  world.loop.run_for(kLong);
  flow->dispatch.open(true);
  world.loop.run_for(kLong);
  EXPECT_EQ(counted(), (PromiseCounts{0, 5, 0}));
}

// --- CountUpkeep

TEST_F(PromiseStory, IsAddedEveryFewSecondsAndOnlyWhatIsNew) {
  begin(promising());
  jobs->start();
  due_now(2);
  world.loop.run_for(CountUpkeep::kEvery + Ms{100});
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_EQ(stored()[0].queue, "orders");
  EXPECT_EQ(stored()[0].last_hour, (PromiseCounts{2, 0, 0}));
  EXPECT_EQ(stored()[0].last_day, (PromiseCounts{2, 0, 0}));
  world.loop.run_for(CountUpkeep::kEvery);  // it also looks at old buckets, each minute
  flow->janitor.stop();                     // it asks on this lane, too
  const std::size_t asked = flow->jobs.submitted(Lane::upkeep);
  world.loop.run_for(CountUpkeep::kEvery * 5);
  EXPECT_EQ(flow->jobs.submitted(Lane::upkeep), asked) << "nothing is new";
  due_now(1);
  world.loop.run_for(CountUpkeep::kEvery + Ms{100});
  EXPECT_EQ(stored()[0].last_hour, (PromiseCounts{3, 0, 0}));
}

TEST_F(PromiseStory, ALostAnswerCountsOnceAndAFailureLosesNothing) {
  begin(promising());
  due_now(2);
  world.loop.run_for(Ms{100});
  world.db->lose_next_answers(1);
  upkeep->add();
  world.loop.run_for(Ms{1000});
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_EQ(stored()[0].last_hour, (PromiseCounts{2, 0, 0}));
  due_now(1);
  world.loop.run_for(Ms{100});
  world.db->fail_next(1, Error::Kind::refused);
  upkeep->add();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(stored()[0].last_hour, (PromiseCounts{2, 0, 0}));
  upkeep->add();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(stored()[0].last_hour, (PromiseCounts{3, 0, 0}));
}

TEST_F(PromiseStory, OldBucketsGo) {
  begin(promising(), true);
  due_now(1);
  world.loop.run_for(Ms{100});
  upkeep->add();
  world.loop.run_for(Ms{100});
  ASSERT_THAT(stored(), SizeIs(1));
  jobs->start();
  // With each tick there is something to add: that must not keep the old ones from being deleted.
  for (Ms gone{0}; gone < kPromiseHour + kPromiseMinutes * 2; gone += CountUpkeep::kEvery) {
    due_now(1);
    world.loop.run_for(CountUpkeep::kEvery);
  }
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_GT(stored()[0].last_day.in_time, stored()[0].last_hour.in_time);
  EXPECT_LE(world.eyes->forget(world.now(), 100).value(), 2) << "but for the last minutes'";
}

}  // namespace
}  // namespace rung::bridge
