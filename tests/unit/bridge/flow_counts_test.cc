// What is counted by queue, and the deliveries in hand.
#include "src/bridge/base/flow_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using Ended = FlowCounts::Ended;
using How = PublishResult::How;

RuleBookPtr rules_of(const std::vector<std::string>& queues) {
  RuleBook::Queues named;
  for (const std::string& queue : queues) named[queue] = QueueRules{.ladder = "default", .silence = {}};
  return book_of({Ms{1000}}, named);
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
  FlowCounts counts(book_of({Ms{1000}}, {}, {}, {{QueuePattern("orders.*"), {}}}));
  constexpr std::size_t kMore = 10;
  for (std::size_t i = 0; i < FlowCounts::kMostMatched + kMore; ++i)
    counts.inserted(task_of("orders." + std::to_string(i)));
  counts.inserted(task_of("invoices"));
  EXPECT_EQ(counts.by_queue().at("orders.7").taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().at("orders.*").taken_in[0], static_cast<std::int64_t>(kMore));
  EXPECT_EQ(counts.by_queue().at(FlowCounts::kOther).taken_in[0], 1);
  EXPECT_EQ(counts.by_queue().size(), FlowCounts::kMostMatched + 2);
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

// --- activity: which deliveries count as failed, retried and succeeded

Decision ended_with(Outcome outcome, State was = State::awaiting) {
  Decision decision;
  decision.verdict = Decision::Verdict::applied;
  decision.was = was;
  decision.task = task_of("orders", outcome == Outcome::succeeded ? State::succeeded : State::scheduled);
  decision.attempt.emplace();
  decision.attempt->outcome = outcome;
  return decision;
}

Task delivery_of(Kind kind, int attempt) {
  Task task = task_of("orders");
  task.kind = kind;
  task.attempt = attempt;
  return task;
}

ActivityCounts activity_of(const FlowCounts& counts) { return counts.by_queue().at("orders").activity(); }

TEST(ActivityCounted, FirstFailuresAndLaterOnes) {
  FlowCounts counts(rules_of({"orders"}));
  counts.inserted(delivery_of(Kind::retry, 0));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{1, 0, 0}));
  counts.inserted(delivery_of(Kind::delay, 0));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{1, 0, 0})) << "a delay has not failed";
  for (const Outcome outcome : {Outcome::failed, Outcome::timed_out, Outcome::returned, Outcome::pending})
    counts.decided(ended_with(outcome));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{4, 0, 0}));
}

TEST(ActivityCounted, ConfirmedRetries) {
  FlowCounts counts(rules_of({"orders"}));
  for (const How how : {How::confirmed, How::returned, How::nacked, How::lost, How::fenced, How::rejected})
    counts.published(delivery_of(Kind::retry, 1), how, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 1, 0}));
  counts.published(delivery_of(Kind::delay, 1), How::confirmed, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 1, 0})) << "the first delivery of a delay is no retry";
  counts.published(delivery_of(Kind::delay, 2), How::confirmed, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 2, 0}));
}

TEST(ActivityCounted, SuccessesReportedAndPresumedAndEachOnce) {
  FlowCounts counts(rules_of({"orders"}));
  counts.decided(ended_with(Outcome::succeeded));
  Decision presumed = ended_with(Outcome::succeeded);
  presumed.task.finished_by = FinishedBy::presumed;
  counts.decided(presumed);
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 0, 2}));
  counts.decided(ended_with(Outcome::succeeded, State::succeeded));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 0, 2})) << "the report of one that was presumed";
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

// ---- Promises of lateness: which deliveries keep theirs, and what of that reaches the database.

using testing::SizeIs;

constexpr Ms kPromised{5000};
constexpr Ms kLong{60'000};

RuleBookPtr promising(const GateRules& gate = {}, std::optional<Ms> late_by = kPromised) {
  QueueRules rules;
  rules.silence = {Silence::Means::failure, Ms{3'600'000}};
  RuleBook::Queues queues{{"invoices", rules}};
  rules.gate = gate;
  rules.late_by = late_by;
  queues["orders"] = rules;
  return book_of({Ms{1000}}, queues);
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
  PromiseCounts counted() { return flow->counts.by_queue().at("orders").promised; }
  std::vector<PromiseRow> stored() { return world.eyes->promises(); }

  const NodeIdentity identity{"a", "0", "here", Flow::kIncarnation};
  World world;
  std::unique_ptr<Flow> flow;
  std::unique_ptr<Jobs> jobs;
  std::unique_ptr<CountUpkeep> upkeep;
};

TEST_F(PromiseStory, WhatAPauseHeldBackIsGated) {
  begin(promising());
  world.pause("orders");
  world.loop.run_for(Ms{1000});
  due_now(3);
  world.loop.run_for(kLong);
  world.resume("orders");
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(counted(), (PromiseCounts{0, 0, 3}));
}

TEST_F(PromiseStory, AfterThePauseTheTimeIsOurs) {
  begin(promising());
  world.pause("orders");
  world.loop.run_for(Ms{1000});
  due_now();
  world.loop.run_for(kLong);
  flow->dispatch.open(false);
  world.resume("orders");
  world.loop.run_for(kPromised + Ms{1000});
  flow->dispatch.open(true);
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(counted(), (PromiseCounts{0, 1, 0}));
}

TEST_F(PromiseStory, WhatWaitedForItsTokenIsGated) {
  begin(promising({.rate = 1}));
  due_now(20);
  world.loop.run_for(kLong);
  EXPECT_EQ(counted().late, 0);
  EXPECT_EQ(counted().in_time + counted().gated, 20);
  EXPECT_GE(counted().gated, 13);
  EXPECT_LT(flow->counts.by_queue().at("orders").late.sum, 5) << "for /metrics, also without a promise";
}

TEST_F(PromiseStory, AnOutageIsLateForAQueueWithARateToo) {
  begin(promising({.rate = 1}));
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
  EXPECT_LE(world.eyes->forget(world.now(), 100), 2) << "but for the last minutes'";
}

}  // namespace
}  // namespace rung::bridge
