// Breakers, rates and windows in the flow: what goes out, when, and what it costs the tasks.
#include "src/bridge/gates/breakers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/base/rfc3339.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr Ms kSecond{1000};

RuleBookPtr gated(const GateRules& gate, Silence silence = {Silence::Means::failure, Ms{3'600'000}}) {
  QueueRules orders{.ladder = "default", .silence = silence, .catch_up = 1000};
  orders.gate = gate;
  const QueueRules defaults{.ladder = "default", .silence = silence, .catch_up = 1000};
  return std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}, Ms{2000}, Ms{5000}})}},
      RuleBook::Queues{{"orders", orders}}, RuleBook::Tags{}, defaults);
}

class GateStory : public testing::Test {
 protected:
  explicit GateStory(const GateRules& gate) : GateStory(gated(gate)) {}
  explicit GateStory(RuleBookPtr rules) {
    world.rules = std::move(rules);
    flow = std::make_unique<Flow>(world);
    flow->take_shards();
    start(*flow);
  }
  static void start(Flow& instance) {
    instance.world.read_clock(instance.clock);
    instance.janitor.start();
    instance.gates.start();
    instance.breakers.start();
    instance.writer.start();
    instance.world.loop.run_for(Ms{100});
  }
  TaskId scheduled(const std::string& queue, Ms delay, const std::string& tenant = "") {
    const TaskId id = world.insert(queue, world.now() + delay, 5, [&](Task& task) {
      if (!tenant.empty()) task.rule_headers = {{"tenant", tenant}};
    });
    flow->schedule(id);
    return id;
  }
  std::vector<TaskId> sent(const std::string& queue = "orders") const {
    std::vector<TaskId> ids;
    for (const Message& message : flow->broker.contents(queue))
      ids.push_back(TaskId::parse(std::get<std::string>(find(message.headers, header::kId)->v)).value());
    return ids;
  }
  void fails(TaskId id, const std::string& type = "TimeoutError") {
    event::Failed failed;
    failed.attempt = world.row(id).attempt;
    failed.error = "no answer";
    failed.error_type = type;
    ASSERT_EQ(flow->say({id, failed})->verdict, Decision::Verdict::applied);
  }
  void succeeds(TaskId id) {
    ASSERT_EQ(flow->say({id, event::Succeeded{world.row(id).attempt}})->verdict, Decision::Verdict::applied);
  }
  Breaker breaker() {
    const auto states = world.eyes->gate_states().value();
    return states.empty() ? Breaker{} : states.front().breaker;
  }

  World world;
  std::unique_ptr<Flow> flow;
};

// --- breaker

GateRules with_breaker() {
  GateRules gate;
  gate.breaker = BreakerRules{
      .open_after = 3, .of_last = 10, .only = {"Timeout*"}, .wait = {kSecond * 30, kSecond * 120}};
  return gate;
}

class BreakerStory : public GateStory {
 protected:
  explicit BreakerStory(const GateRules& gate = with_breaker()) : GateStory(gate) {}
  // Three tasks fail; they are due again while it is open.
  std::vector<TaskId> open_it() {
    std::vector<TaskId> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(scheduled("orders", Ms{10}));
    world.loop.run_for(Ms{100});
    EXPECT_THAT(sent(), SizeIs(3));
    for (const TaskId id : ids) fails(id);
    world.loop.run_for(Ms{300});
    EXPECT_EQ(breaker().state, Breaker::State::open);
    return ids;
  }
};

TEST_F(BreakerStory, WhatIsDueWaitsAndCostsNothing) {
  const auto ids = open_it();
  const TaskId other = scheduled("invoices", Ms{10});
  const TaskId fresh = scheduled("orders", Ms{10});
  world.loop.run_for(kSecond * 28);
  EXPECT_THAT(sent(), SizeIs(3));
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  EXPECT_EQ(world.row(fresh).attempt, 0);
  for (const TaskId id : ids) {
    EXPECT_EQ(world.row(id).attempt, 1);
    EXPECT_EQ(world.row(id).level, 2);
  }
  auto events = world.eyes->events(10).value();
  std::erase_if(events, [](const SystemEvent& event) { return event.kind.starts_with("cause_"); });
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, "breaker_opened");
  EXPECT_EQ(events[0].subject, "orders");
}

// The pause is seen after the probe was asked for, and before it is granted.
TEST_F(BreakerStory, AProbeThatIsGrantedDuringAPauseStays) {
  open_it();
  world.run_until(*breaker().until - Ms{300});
  flow->jobs.by_hand(Lane::gates);
  flow->jobs.by_hand(Lane::gate_writes);
  world.loop.run_for(Ms{1000});  // a read, and the question, are on their way
  ASSERT_EQ(flow->jobs.waiting(Lane::gates), 1U);
  ASSERT_EQ(flow->jobs.waiting(Lane::gate_writes), 1U);
  ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""}));
  while (flow->jobs.run_next(Lane::gates) || flow->jobs.run_next(Lane::gate_writes))
    world.loop.run_for(Ms{1});
  flow->jobs.by_itself(Lane::gates);
  flow->jobs.by_itself(Lane::gate_writes);
  world.loop.run_for(kSecond * 30);
  EXPECT_THAT(sent(), SizeIs(3)) << "those before it opened";
  ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any());
  world.loop.run_for(kSecond * 2);
  EXPECT_THAT(sent(), SizeIs(4));
}

// As of a newer version, or edited by hand.
TEST_F(BreakerStory, ADamagedRowIsItsOwnQueuesAlone) {
  open_it();
  const EpochMs until = *breaker().until;
  world.db->damage_gates("orders");
  ASSERT_TRUE(world.eyes->pause({"invoices", {}, "ann", ""}));
  world.loop.run_for(kSecond * 2);
  EXPECT_TRUE(flow->gates.why_closed("invoices")) << "the others are read";
  ASSERT_TRUE(flow->gates.why_closed("orders")) << "what can be read of it applies";
  EXPECT_TRUE(flow->gates.state("orders")->damaged);
  Flow restarted(world, {.name = "b"});
  start(restarted);
  EXPECT_TRUE(restarted.gates.known());
  world.run_until(until + Ms{600});
  EXPECT_THAT(sent(), SizeIs(4)) << "it probes";
  EXPECT_FALSE(flow->gates.state("orders")->damaged) << "a change writes it anew";
}

TEST_F(BreakerStory, OneProbeForEachWaitAndItsFailureCostsNoAttempt) {
  open_it();
  const EpochMs first_probe = *breaker().until;
  world.run_until(first_probe - Ms{1});
  EXPECT_THAT(sent(), SizeIs(3));
  world.run_until(first_probe + Ms{600});
  ASSERT_THAT(sent(), SizeIs(4));
  const TaskId probe = sent().back();
  EXPECT_EQ(world.row(probe).attempt, 2);
  EXPECT_GT(world.row(probe).probe, 0);
  const EpochMs failed_at = world.now();
  fails(probe);
  world.loop.run_for(Ms{100});
  EXPECT_EQ(breaker().state, Breaker::State::open);
  const Task after = world.row(probe);
  EXPECT_EQ(after.state, State::scheduled);
  EXPECT_EQ(after.level, 2) << "the level stays";
  EXPECT_NEAR(static_cast<double>((*after.next_at - failed_at).count()), 2000, 200)
      << "and so does its delay";
  EXPECT_EQ(counted_attempts(after), 1);
  EXPECT_EQ(after.rule, "breaker");
  world.loop.run_for(kSecond * 119);
  EXPECT_THAT(sent(), SizeIs(4));
  world.loop.run_for(kSecond * 2);
  ASSERT_THAT(sent(), SizeIs(5));
  EXPECT_NE(sent().back(), probe) << "the one that has waited longest";
}

GateRules with_breaker_and_rate() {
  GateRules gate = with_breaker();
  gate.rate = 1000;
  return gate;
}
class BreakerWithRate : public BreakerStory {
 protected:
  BreakerWithRate() : BreakerStory(with_breaker_and_rate()) {}
};

TEST_F(BreakerWithRate, ATaskThatHasMovedToAnotherQueueCostsNoProbe) {
  const auto ids = open_it();
  world.run_until(*breaker().until - kSecond);
  for (const TaskId id : {ids[0], ids[1]}) {
    event::Redrive redrive;
    redrive.elsewhere.queue = "invoices";
    ASSERT_EQ(flow->say({id, redrive})->verdict, Decision::Verdict::applied);
  }
  world.run_until(*breaker().until + Ms{600});
  ASSERT_THAT(sent(), SizeIs(4));
  EXPECT_EQ(sent().back(), ids[2]);
}

// As when the process stops during an outage.
TEST_F(BreakerStory, AProbeWhoseClaimFailsIsGivenBack) {
  open_it();
  world.run_until(*breaker().until - Ms{1});
  flow->jobs.by_hand(Lane::flow);
  ASSERT_TRUE(world.loop.run_until([&] { return flow->jobs.waiting(Lane::flow) == 1; }, kSecond * 5));
  flow->jobs.by_hand(Lane::gate_writes);
  ASSERT_EQ(flow->writer.pending(), 0U);
  world.db->fail_next(1);
  ASSERT_TRUE(flow->jobs.run_next());
  flow->jobs.stop();
  world.loop.run_for(Ms{5});
  EXPECT_EQ(flow->writer.pending() + flow->jobs.waiting(Lane::gate_writes), 1U);
}

TEST_F(BreakerStory, AnotherErrorOfAProbeSaysThatTheTargetAnswers) {
  open_it();
  world.run_until(*breaker().until + Ms{600});
  const TaskId probe = sent().back();
  fails(probe, "ValidationError");
  world.loop.run_for(Ms{100});
  EXPECT_EQ(breaker().state, Breaker::State::half_open);
  EXPECT_EQ(breaker().succeeded, 1);
  EXPECT_EQ(world.row(probe).level, 3) << "an ordinary failure";
  EXPECT_EQ(counted_attempts(world.row(probe)), 2);
}

TEST_F(BreakerStory, FlowsWithinTwoSecondsOfTheFirstSuccess) {
  open_it();
  for (int i = 0; i < 20; ++i) scheduled("orders", Ms{10});
  world.run_until(*breaker().until + Ms{600});
  ASSERT_THAT(sent(), SizeIs(4));
  const EpochMs first_success = world.now();
  std::size_t answered = 3;
  while (breaker().state != Breaker::State::closed && world.now() < first_success + kSecond * 5) {
    for (const auto ids = sent(); answered < ids.size(); ++answered) succeeds(ids[answered]);
    world.loop.run_for(Ms{20});
  }
  world.run_until(first_success + kSecond * 2);
  EXPECT_THAT(sent(), SizeIs(3 + 23));
  EXPECT_EQ(world.eyes->events(1).value().front().kind, "breaker_closed");
  for (const TaskRow& row : world.rows()) {
    if (row.task.queue == "orders") {
      EXPECT_GE(row.task.uncounted_time, kSecond * 25) << "the time behind the breaker";
    }
  }
}

TEST_F(BreakerStory, TheFlowGrowsAgain) {
  open_it();
  for (int i = 0; i < 3000; ++i) scheduled("orders", Ms{10});
  world.run_until(*breaker().until + Ms{600});
  std::size_t answered = 3;
  while (breaker().state != Breaker::State::closed) {
    for (const auto ids = sent(); answered < ids.size(); ++answered) succeeds(ids[answered]);
    world.loop.run_for(Ms{20});
  }
  const std::size_t before = sent().size();
  world.loop.run_for(Ms{900});
  EXPECT_NEAR(static_cast<double>(sent().size() - before), 90, 30) << "10 % of catch_up";
  world.loop.run_for(kSecond);
  EXPECT_NEAR(static_cast<double>(sent().size() - before), 290, 60) << "20 % in the second second";
  world.loop.run_for(kSecond * 4);
  EXPECT_GT(sent().size() - before, 2000U);
}

TEST_F(BreakerStory, IsInForceOnAnotherInstanceAndAfterARestart) {
  open_it();
  Flow::Options options;
  options.name = "b";
  Flow other(world, options);
  start(other);
  EXPECT_TRUE(other.gates.known());
  ASSERT_NE(other.gates.why_closed("orders"), nullptr);
  EXPECT_EQ(other.gates.why_closed("orders")->by, GateKind::breaker);
  EXPECT_EQ(other.gates.why_closed("orders")->word, "breaker_open");
  world.loop.run_for(kSecond * 32);
  ASSERT_NE(other.gates.why_closed("orders"), nullptr);
  EXPECT_EQ(other.gates.why_closed("orders")->word, "breaker_half_open");
}

TEST_F(BreakerStory, APauseHoldsBackProbesToo) {
  open_it();
  ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""}));
  world.loop.run_for(kSecond * 120);
  EXPECT_THAT(sent(), SizeIs(3));
  ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any());
  world.loop.run_for(kSecond);
  EXPECT_THAT(sent(), SizeIs(4));
}

TEST_F(BreakerStory, AReloadThatRemovesTheBreakerOpensTheGate) {
  open_it();
  world.rules = gated({});
  world.loop.run_for(kSecond * 2);
  EXPECT_THAT(sent(), SizeIs(6));
}

// --- rates

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
  world.loop.run_for(Ms{300});
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
  const auto gates = world.eyes->queue_gates().value();
  ASSERT_FALSE(gates.empty());
  EXPECT_EQ(gates.back().queue, "orders");
  EXPECT_EQ(gates.back().state, "rate_limited");
  EXPECT_EQ(gates.back().reason, "rate 20/s");
}

TEST_F(RateStory, BelowTheRateNothingIsLate) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(scheduled("orders", Ms{500 + i * 100}));
  world.loop.run_for(kSecond * 5);
  for (const TaskId id : ids) {
    const Attempt attempt = world.eyes->history(id).value().front().attempt;
    EXPECT_LE(*attempt.published_at - attempt.due_at, Ms{20});
  }
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

TEST_F(RateStory, APausedQueueTakesNoSendTimes) {
  for (int i = 0; i < 200; ++i) scheduled("orders", Ms{2000});
  ASSERT_TRUE(world.eyes->pause({"orders", {}, "ann", ""}));
  world.loop.run_for(kSecond * 10);
  EXPECT_THAT(sent(), IsEmpty());
  ASSERT_TRUE(world.eyes->resume("orders", "ann", "")->any());
  world.loop.run_for(Ms{5600});
  EXPECT_NEAR(static_cast<double>(sent().size()), 105, 12);
}

TEST_F(RateStory, CancelledTasksUseNoSendTimes) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(scheduled("orders", Ms{100 + i}));
  world.loop.run_for(Ms{300});
  for (std::size_t i = 20; i < 190; ++i)
    world.apply(Fence{0, {}, true}, {ids[i], event::Cancel{"no"}, ByHand{"ann", {}}});
  world.loop.run_for(kSecond * 5);
  EXPECT_EQ(world.row(ids.back()).state, State::awaiting) << "the 170 cancelled ones would take 8 s";
}

TEST_F(RateStory, WithoutTheBrokerNoSendTimesAreTaken) {
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

GateRules few_in_flight() {
  GateRules gate;
  gate.in_flight = 5;
  return gate;
}

class InFlightStory : public GateStory {
 protected:
  InFlightStory() : GateStory(few_in_flight()) {}
};

TEST_F(InFlightStory, NoMoreAreOutThanAllowed) {
  for (int i = 0; i < 30; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), SizeIs(5));
  std::size_t answered = 0;
  for (int i = 0; i < 100 && answered < 30; ++i) {
    const auto ids = sent();
    EXPECT_LE(ids.size() - answered, 5U);
    if (answered < ids.size()) succeeds(ids[answered++]);
    world.loop.run_for(Ms{200});
  }
  EXPECT_EQ(answered, 30U);
}

TEST_F(InFlightStory, TwoInstancesShareTheLimit) {
  Flow::Options options;
  options.name = "b";
  Flow other(world, options);
  start(other);
  other.shards.start();
  EXPECT_TRUE(world.loop.run_until([&] { return other.shards.count() == kShards / 2; }));
  for (int i = 0; i < 40; ++i) world.insert("orders", world.now() + Ms{2000}, i);
  world.loop.run_for(kSecond * 10);
  EXPECT_EQ(sent().size() + other.broker.contents("orders").size(), 5U);
  EXPECT_GT(other.dispatch.held(), 0U);
}

// --- by pattern

RuleBookPtr gated_by_pattern(const GateRules& gate) {
  const RuleBookPtr one = gated(gate);
  return std::make_shared<RuleBook>(one->ladders(), RuleBook::Queues{}, RuleBook::Tags{}, one->defaults(),
                                    TargetRules{}, RuleBook::RuleLists{},
                                    std::make_shared<const ErrorQueues>(),
                                    RuleBook::Patterns{{QueuePattern("orders.*"), one->queue("orders")}});
}

class PatternRateStory : public GateStory {
 protected:
  PatternRateStory() : GateStory(gated_by_pattern(few_in_flight())) {
    for (const char* queue : {"orders.a", "orders.b"}) flow->broker.declare(queue);
  }
};

TEST_F(PatternRateStory, EachQueueThatMatchesHasAGateOfItsOwn) {
  for (int i = 0; i < 30; ++i) scheduled("orders.a", Ms{100});
  for (int i = 0; i < 3; ++i) scheduled("orders.b", Ms{100});
  for (int i = 0; i < 10; ++i) scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent("orders.a"), SizeIs(5));
  EXPECT_THAT(sent("orders.b"), SizeIs(3)) << "five of its own";
  EXPECT_THAT(sent("orders"), SizeIs(10)) << "does not match";
}

GateRules with_window() {
  GateRules gate;
  gate.window =
      std::make_shared<const TimeWindow>(TimeWindow::parse({"08:00-08:30", "09:00-18:00"}, "UTC").value());
  return gate;
}

class PatternWindowStory : public GateStory {
 protected:
  PatternWindowStory() : GateStory(gated_by_pattern(with_window())) { flow->broker.declare("orders.a"); }
};

TEST_F(PatternWindowStory, AQueueThatMatchesWaitsOutsideTheWindow) {
  const Ms in_day{world.now().ms % 86'400'000}, closes = kSecond * 60 * (8 * 60 + 30);
  world.loop.run_for(closes - in_day + kSecond);
  scheduled("orders.a", kSecond);
  const TaskId other = scheduled("invoices", kSecond);
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent("orders.a"), IsEmpty());
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  const auto gates = world.eyes->queue_gates().value();
  ASSERT_THAT(gates, SizeIs(1));
  EXPECT_EQ(gates[0].queue, "orders.a");
}

class WindowStory : public GateStory {
 protected:
  WindowStory() : GateStory(with_window()) {}
};

TEST_F(WindowStory, TasksWaitOutsideTheWindow) {
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
  const auto gates = world.eyes->queue_gates().value();
  ASSERT_THAT(gates, SizeIs(1));
  EXPECT_EQ(gates[0].state, "outside_window");
  EXPECT_EQ(gates[0].until, open);
  world.run_until(open - Ms{1});
  EXPECT_THAT(sent(), IsEmpty());
  world.run_until(open + Ms{100});
  EXPECT_EQ(sent(), std::vector<TaskId>{late});
  EXPECT_EQ(world.row(late).uncounted_time, open - due);
}

// --- retry-after

GateRules with_retry_after() {
  GateRules gate;
  gate.retry_after = {kSecond * 60, true};
  return gate;
}

class RetryAfterStory : public GateStory {
 protected:
  RetryAfterStory() : GateStory(with_retry_after()) {}
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
  const TaskId second = scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 59);
  EXPECT_THAT(sent(), SizeIs(1));
  const auto gates = world.eyes->queue_gates().value();
  EXPECT_EQ(gates[0].state, "paused");
  EXPECT_EQ(gates[0].by, "retry-after");
  EXPECT_EQ(gates[0].reason, "task " + first.str() + " asked for 1m");
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
  const TaskId second = scheduled("orders", Ms{100});
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), SizeIs(1));
  EXPECT_TRUE(world.eyes->resume("orders", "ann", "")->retry_after);
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
  EXPECT_EQ(flow->writer.pending(), 0U);
  const auto hold = world.eyes->gate_states().value().at(0).retry_after;
  ASSERT_TRUE(hold);
  EXPECT_GE(hold->until - hold->since, Ms{29'990});
  EXPECT_EQ(hold->reason, "task " + ids.back().str() + " asked for 29s990ms");
}

}  // namespace
}  // namespace rung::bridge
