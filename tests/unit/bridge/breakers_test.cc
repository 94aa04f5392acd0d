// Breakers in the flow: what goes out, when, and what it costs the tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::SizeIs;

class BreakerStory : public GateStory {
 protected:
  BreakerStory() { begin(with_breaker()); }
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
  auto events = world.eyes->events(10);
  std::erase_if(events, [](const SystemEvent& event) { return event.kind.starts_with("cause_"); });
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, "breaker_opened");
  EXPECT_EQ(events[0].subject, "orders");
}

TEST_F(BreakerStory, APersonsProbeGoesAtOnce) {
  open_it();
  scheduled("orders", Ms{10});
  world.loop.run_for(kSecond);
  ASSERT_THAT(sent(), SizeIs(3));
  const EpochMs until = *breaker().until;
  world.eyes->change_gate("orders", [](GateState& state, EpochMs now) {
    state.breaker.until = now;  // as api::resume_queue() does
    return std::vector<SystemEvent>{};
  });
  world.loop.run_for(kSecond);
  EXPECT_THAT(sent(), SizeIs(4));
  EXPECT_LT(world.now(), until);
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
  world.pause("orders");
  while (flow->jobs.run_next(Lane::gates) || flow->jobs.run_next(Lane::gate_writes))
    world.loop.run_for(Ms{1});
  flow->jobs.by_itself(Lane::gates);
  flow->jobs.by_itself(Lane::gate_writes);
  world.loop.run_for(kSecond * 30);
  EXPECT_THAT(sent(), SizeIs(3)) << "those before it opened";
  world.resume("orders");
  world.loop.run_for(kSecond * 2);
  EXPECT_THAT(sent(), SizeIs(4));
}

// As of a newer version, or edited by hand.
TEST_F(BreakerStory, ADamagedRowIsItsOwnQueuesAlone) {
  open_it();
  const EpochMs until = *breaker().until;
  world.db->damage_gates("orders");
  world.pause("invoices");
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

TEST_F(BreakerStory, ATaskThatHasMovedToAnotherQueueCostsNoProbe) {
  GateRules with_rate = with_breaker();
  with_rate.rate = 1000;
  world.rules = gated(with_rate);
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
  flow->janitor.stop();
  flow->jobs.by_hand(Lane::flow);
  ASSERT_TRUE(world.loop.run_until([&] { return flow->jobs.waiting(Lane::flow) == 1; }, kSecond * 5));
  flow->jobs.by_hand(Lane::gate_writes);
  ASSERT_EQ(flow->gates.pending(), 0U);
  world.db->fail_next(1);
  ASSERT_TRUE(flow->jobs.run_next());
  flow->jobs.stop();
  world.loop.run_for(Ms{5});
  EXPECT_EQ(flow->gates.pending() + flow->jobs.waiting(Lane::gate_writes), 1U);
}

// Regression: the failure that was written before the error counted twice.
TEST_F(GateStory, ABatchThatWasSplitIsNotRepeatedAsAWhole) {
  begin(gated_by_pattern(with_breaker()));
  flow->broker.declare("orders.a");
  flow->broker.declare("orders.b");
  std::vector<TaskId> ids;
  for (const char* queue : {"orders.a", "orders.a", "orders.b"}) ids.push_back(scheduled(queue, Ms{10}));
  world.loop.run_for(Ms{100});
  flow->jobs.by_hand(Lane::gate_writes);
  for (const TaskId id : ids) fails(id);
  ASSERT_TRUE(world.loop.run_until([&] { return flow->jobs.waiting(Lane::gate_writes) == 1; }));
  world.db->fail_next(1, Error::Kind::permanent);  // the batch: then singly ...
  world.db->lose_next_answers(1);                  // ... of which the first is written
  ASSERT_TRUE(flow->jobs.run_next(Lane::gate_writes));
  ASSERT_TRUE(flow->jobs.run_next(Lane::gate_writes));
  const auto states = world.eyes->gate_states();
  ASSERT_THAT(states, SizeIs(2));
  for (const GateState& state : states) EXPECT_EQ(state.breaker.state, Breaker::State::closed) << state.queue;
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
  EXPECT_EQ(world.eyes->events(1).front().kind, "breaker_closed");
  for (const TaskRow& row : world.rows()) {
    if (row.task.queue == "orders") {
      EXPECT_GE(row.task.uncounted_time, kSecond * 25) << "the time behind the breaker";
    }
  }
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

TEST_F(BreakerStory, AReloadThatRemovesTheBreakerOpensTheGate) {
  open_it();
  world.rules = gated({});
  world.loop.run_for(kSecond * 2);
  EXPECT_THAT(sent(), SizeIs(6));
}

}  // namespace
}  // namespace rung::bridge
