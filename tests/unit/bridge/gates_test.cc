// Pauses by hand: what an instance knows of them, and what that does to the flow.
#include "src/bridge/gates/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Ms kAMinute{60'000};

class GatesTest : public testing::Test {
 protected:
  GatesTest() { world.read_clock(clock); }
  ~GatesTest() override { world.db->fail_next(0); }
  Pause pause(const std::string& queue, std::optional<EpochMs> until = {}) {
    return world.eyes->pause({queue, until, "ann", "down"}).value();
  }
  void resume(const std::string& queue) { ASSERT_TRUE(world.eyes->resume(queue, "ann", "")->any()); }

  World world;
  DbClock clock{*world.clock};
  test::VirtualJobs jobs{world.loop,
                         [this]() -> Result<std::unique_ptr<Store>> { return open_memory_store(world.db); }};
  int changes = 0;
  Health health{*world.clock, [] {}};
  Gates gates{world.loop,  jobs,   clock,
              world.rules, health, [this](const std::vector<std::string>&) { ++changes; }};
};

TEST_F(GatesTest, NothingIsKnownBeforeTheFirstRead) {
  pause("orders");
  jobs.by_hand(Lane::gates);
  gates.start();
  world.loop.run_for(Ms{2000});
  EXPECT_FALSE(gates.known());
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(gates.closed(), ElementsAre("orders"));
  EXPECT_EQ(changes, 1) << "known and closed are told at once: in between, it would look open";
}

// Until the database's clock is read, "now" is the time since the machine's start: on a machine that is up
// for 16 minutes it would be 00:16.
TEST_F(GatesTest, AWindowIsJudgedByTheDatabasesClockAlone) {
  QueueRules gated = world.rules->queue("orders");
  gated.gate.window = std::make_shared<const TimeWindow>(*TimeWindow::parse({"00:00-01:00"}, "UTC"));
  const auto ladder = *levels::Ladder::from_list({Ms{1000}});
  world.rules =
      std::make_shared<RuleBook>(RuleBook::Ladders{{"default", ladder}}, RuleBook::Queues{{"orders", gated}},
                                 RuleBook::Tags{}, world.rules->queue("invoices"));
  DbClock unread(*world.clock);
  Gates judged(world.loop, jobs, unread, world.rules, health, [](const std::vector<std::string>&) {});
  judged.start();
  world.loop.run_for(Ms{2000});
  EXPECT_FALSE(judged.known());
  world.read_clock(unread);
  judged.clock_measured();
  EXPECT_TRUE(judged.known());
  ASSERT_NE(judged.why_closed("orders"), nullptr) << "it is 08:16";
  EXPECT_EQ(judged.why_closed("orders")->by, GateKind::window);
  judged.stop();
}

TEST_F(GatesTest, APauseAndItsEndAreKnownWithinASecond) {
  gates.start();
  world.loop.run_for(Ms{100});
  EXPECT_THAT(gates.closed(), IsEmpty());
  pause("orders");
  pause("invoices");
  world.loop.run_for(Ms{510});
  EXPECT_THAT(gates.closed(), ElementsAre("invoices", "orders"));
  resume("orders");
  world.loop.run_for(Ms{510});
  EXPECT_THAT(gates.closed(), ElementsAre("invoices"));
  EXPECT_EQ(changes, 3);
  world.loop.run_for(kAMinute);
  EXPECT_EQ(changes, 3);
}

TEST_F(GatesTest, APauseEndsInItsMsAndNotBefore) {
  gates.start();
  const EpochMs until = world.now() + Ms{10'123};
  pause("orders", until);
  world.run_until(until - Ms{1});
  EXPECT_THAT(gates.closed(), ElementsAre("orders"));
  world.run_until(until);
  EXPECT_THAT(gates.closed(), IsEmpty());
}

TEST_F(GatesTest, WithoutTheDatabaseTheLastPausesApplyAndEndByItsClock) {
  gates.start();
  const EpochMs until = world.now() + kAMinute;
  pause("orders", until);
  pause("invoices");
  world.loop.run_for(Ms{1000});
  world.db->fail_next(1'000'000);
  world.run_until(until - Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(gates.closed(), ElementsAre("invoices", "orders"));
  world.run_until(until);
  EXPECT_THAT(gates.closed(), ElementsAre("invoices"));
}

TEST_F(GatesTest, AResumedQueueIsOpenEvenIfOurClockIsBehind) {
  gates.start();
  pause("orders");
  world.loop.run_for(Ms{1000});
  world.read_clock(clock, Ms{5000});
  resume("orders");
  world.loop.run_for(Ms{501});
  EXPECT_THAT(gates.closed(), IsEmpty());
}

TEST_F(GatesTest, AfterInvalidateOnlyALaterReadCounts) {
  gates.start();
  world.loop.run_for(Ms{100});
  jobs.by_hand(Lane::gates);
  world.loop.run_for(Ms{500});  // one is on its way
  gates.invalidate();
  EXPECT_FALSE(gates.known());
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_FALSE(gates.known());
  pause("orders");
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(gates.closed(), ElementsAre("orders"));
}

TEST_F(GatesTest, WhereTheyCannotBeReadAfterTheStartOrLostLeasesItIsAProblem) {
  jobs.by_hand(Lane::gates);
  gates.start();
  world.loop.run_for(Ms{4000});
  EXPECT_FALSE(health.has("gates"));
  world.loop.run_for(Ms{2000});
  EXPECT_TRUE(health.has("gates"));
  EXPECT_TRUE(health.problems().at(0).not_ready);
  jobs.by_itself(Lane::gates);
  world.loop.run_for(Ms{1000});
  EXPECT_TRUE(gates.known());
  EXPECT_FALSE(health.has("gates"));
  jobs.by_hand(Lane::gates);
  gates.invalidate();
  gates.invalidate();
  world.loop.run_for(Ms{4000});
  EXPECT_FALSE(health.has("gates"));
  world.loop.run_for(Ms{2000});
  EXPECT_TRUE(health.has("gates"));
  jobs.by_itself(Lane::gates);
  world.loop.run_for(Ms{1000});
  EXPECT_FALSE(health.has("gates"));
}

// A backup was restored.
TEST_F(GatesTest, APauseWhoseRowIsGoneEndsWithTheNextFullRead) {
  const auto restore = world.db->back_up();
  gates.start();
  pause("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_THAT(gates.closed(), ElementsAre("orders"));
  restore();
  world.loop.run_for(Ms{31'000});
  EXPECT_THAT(gates.closed(), IsEmpty());
}

TEST_F(GatesTest, KnowsForHowLongATaskHasWaited) {
  gates.start();
  const EpochMs due = world.now();
  EXPECT_FALSE(gates.was_closed("orders", due));
  world.loop.run_for(kAMinute);
  pause("orders");
  world.loop.run_for(kAMinute);
  world.read_clock(clock);
  resume("orders");
  world.loop.run_for(kAMinute);
  pause("orders");
  world.loop.run_for(kAMinute);
  resume("orders");
  world.loop.run_for(kAMinute);
  world.read_clock(clock);
  EXPECT_EQ(gates.waited("orders", due), 2 * kAMinute) << "both pauses, and not the time between them";
  EXPECT_TRUE(gates.was_closed("orders", due));
  EXPECT_EQ(gates.waited("orders", due + Ms{210'000}), Ms{30'000});
  EXPECT_FALSE(gates.was_closed("orders", world.now() - Ms{1000}));
  EXPECT_EQ(gates.waited("invoices", due), Ms{0});

  Gates after_a_restart(world.loop, jobs, clock, world.rules, health, [](const std::vector<std::string>&) {});
  after_a_restart.start();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(after_a_restart.waited("orders", due), kAMinute) << "the latest pause";
}

// --- in the flow

class PauseStory : public testing::Test {
 protected:
  PauseStory() { begin(); }
  void begin() {
    flow.take_shards();
    flow.janitor.start();
    flow.gates.start();
    world.loop.run_for(Ms{100});
  }
  void pause(const std::string& queue, std::optional<EpochMs> until = {}) {
    ASSERT_TRUE(world.eyes->pause({queue, until, "ann", ""}));
    world.loop.run_for(Ms{600});
  }
  void resume(const std::string& queue) { ASSERT_TRUE(world.eyes->resume(queue, "ann", "")->any()); }
  TaskId scheduled(const std::string& queue, Ms delay, int shard = 5) {
    const TaskId id = world.insert(queue, world.now() + delay, shard);
    flow.schedule(id);
    return id;
  }
  std::vector<TaskId> published_in_order() {
    std::vector<TaskId> ids;
    for (const Message& message : flow.broker.contents("orders"))
      ids.push_back(TaskId::parse(std::get<std::string>(find(message.headers, header::kId)->v)).value());
    return ids;
  }

  World world;
  Flow flow{world};
};

TEST_F(PauseStory, ATaskOfAPausedQueueWaitsAndLosesNothing) {
  pause("orders");
  const TaskId held = scheduled("orders", Ms{200}), other = scheduled("invoices", Ms{200});
  world.loop.run_for(kAMinute);
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  EXPECT_EQ(flow.attempts_in("invoices"), (std::vector<int>{1}));
  EXPECT_EQ(world.row(other).state, State::awaiting);
  const Task task = world.row(held);
  EXPECT_EQ(task.state, State::scheduled);
  EXPECT_EQ(task.attempt, 0);
  EXPECT_EQ(task.level, 1);
  EXPECT_TRUE(world.eyes->history(held)->empty());
  const EpochMs due = *task.next_at, resumed = world.now();
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1}));
  EXPECT_GE(world.row(held).uncounted_time, resumed - due) << "no deadline runs out because of it";
  EXPECT_LE(world.row(held).uncounted_time, resumed - due + Ms{500}) << "and the time until it was noticed";
  EXPECT_EQ(world.row(other).uncounted_time, Ms{0});
}

TEST_F(PauseStory, TheyGoOutOldestFirstWhenItEndsByItself) {
  const EpochMs until = world.now() + kAMinute;
  pause("orders", until);
  const TaskId second = scheduled("orders", Ms{300}), first = scheduled("orders", Ms{200}),
               third = scheduled("orders", Ms{400});
  world.run_until(until - Ms{1});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  world.run_until(until + Ms{100});
  EXPECT_THAT(published_in_order(), ElementsAre(first, second, third));
}

TEST_F(PauseStory, WhatIsOverdueGoesOutAtTheCatchUpRate) {
  world.rules = story_rules(100);
  pause("orders");
  for (int i = 0; i < 400; ++i) scheduled("orders", Ms{200});
  world.loop.run_for(kAMinute);
  resume("orders");
  world.loop.run_for(Ms{2500});
  EXPECT_GE(flow.broker.depth("orders"), 180U);
  EXPECT_LE(flow.broker.depth("orders"), 260U);
}

TEST_F(PauseStory, ATaskThatMovesFollowsTheGateOfItsNewQueue) {
  pause("orders");
  const auto redrive = [&](const std::string& from, const std::string& to) {
    const TaskId id = world.insert(from, world.now(), 5, [](Task& task) { task.state = State::parked; });
    Target elsewhere;
    elsewhere.queue = to;
    const auto decision = flow.say({id, event::Redrive{elsewhere}, ByHand{"ann", {}}});
    EXPECT_EQ(decision->verdict, Decision::Verdict::applied);
  };
  redrive("orders", "invoices");
  redrive("invoices", "orders");
  world.loop.run_for(Ms{10'000});
  EXPECT_EQ(flow.broker.depth("invoices"), 1U);
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
}

TEST_F(PauseStory, ATaskIsCancelledAndFinishedAsEver) {
  pause("orders");
  const TaskId cancelled = scheduled("orders", Ms{200}), finished = scheduled("orders", Ms{200});
  world.loop.run_for(Ms{1000});
  for (const Event& event : {Event{cancelled, event::Cancel{}, ByHand{"ann", {}}},
                             Event{finished, event::Finish{true, ""}, ByHand{"ann", {}}}})
    EXPECT_EQ(flow.say(event)->verdict, Decision::Verdict::applied);
  resume("orders");
  world.loop.run_for(kAMinute);
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  EXPECT_EQ(world.row(cancelled).state, State::cancelled);
  EXPECT_TRUE(flow.dispatch.idle());
}

TEST_F(PauseStory, AFiredTaskWaitsToo) {
  pause("orders");
  const TaskId id = scheduled("orders", Ms{3'600'000});
  ASSERT_EQ(flow.say({id, event::Fire{}, ByHand{"ann", {}}})->verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
}

// A claim whose publish was lost is repeated, but not into a paused queue.
TEST_F(PauseStory, ARepeatWaitsUnderItsAttempt) {
  flow.broker.hold_confirms();
  const TaskId id = scheduled("orders", Ms{0});
  world.loop.run_for(Ms{100});
  ASSERT_EQ(flow.broker.depth("orders"), 1U);
  ASSERT_EQ(world.row(id).state, State::publishing);
  pause("orders");
  flow.broker.drop_connection();
  flow.broker.release_confirms();
  world.loop.run_for(kAMinute);
  EXPECT_EQ(flow.broker.depth("orders"), 1U);
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.attempts_in("orders"), (std::vector<int>{1, 1}));
  EXPECT_EQ(world.row(id).attempt, 1);
}

class BigPause : public PauseStory {
 protected:
  static constexpr int kBig = 20'000;
  // Overdue for a minute, in all shards, before the sweep sees one of them.
  void overdue_backlog(int tasks = 8000) {
    pause("orders");
    for (int i = 0; i < tasks; ++i) world.insert("orders", world.now() - kAMinute + Ms{i / 10}, i % kShards);
  }
  std::size_t steps_of(Ms time) {
    const EpochMs end = world.now() + time;
    std::size_t steps = 0;
    while (world.now() < end && world.loop.step()) ++steps;
    return steps;
  }
};

TEST_F(BigPause, OtherQueuesKeepTheirTime) {
  overdue_backlog(kBig);
  world.loop.run_for(Ms{5000});
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = flow.broker.depth("invoices");
    scheduled("invoices", Ms{150}, i);
    world.loop.run_for(Ms{155});
    EXPECT_EQ(flow.broker.depth("invoices"), before + 1) << i;
    // Another instance, or the command line: only the sweep finds it.
    const TaskId fired = world.insert("invoices", world.now() + Ms{3'600'000}, i);
    world.apply(Fence{}, {fired, event::Fire{}, ByHand{"ann", {}}});
    world.loop.run_for(Ms{1500});
    EXPECT_EQ(world.row(fired).state, State::awaiting) << i;
  }
  EXPECT_EQ(flow.broker.depth("orders"), 0U);
}

// As after an outage: it is due for longer than the sweep calls recent.
TEST_F(BigPause, WhatIsOldAndBehindItIsFoundToo) {
  overdue_backlog();
  world.loop.run_for(Ms{5000});
  const TaskId old = world.insert("invoices", world.now() - Ms{30'000});
  world.loop.run_for(Ms{6000});
  EXPECT_EQ(world.row(old).state, State::awaiting);
}

TEST_F(BigPause, ABulkFiredIntoItDelaysNobody) {
  overdue_backlog();
  world.loop.run_for(Ms{5000});
  for (int i = 0; i < kBig; ++i) world.insert("orders", world.now(), i % kShards);
  const TaskId fired = world.insert("invoices", world.now());
  world.loop.run_for(Ms{1500});
  EXPECT_EQ(world.row(fired).state, State::awaiting);
}

TEST_F(BigPause, TakesLittleMemoryAndNoTime) {
  overdue_backlog();
  world.loop.run_for(Ms{10'000});
  EXPECT_LE(flow.dispatch.held(), 5000U);
  EXPECT_EQ(flow.dispatch.ready(), 0U);
  EXPECT_LE(steps_of(Ms{10'000}), 400U) << "20 ms timers would make 500 more";
}

// Each with tasks that are due: no list of them is in a statement, and they don't hide an open queue's tasks.
TEST_F(BigPause, FiveThousandClosedQueuesDelayNoOther) {
  constexpr int kClosedQueues = 5000;
  for (int i = 0; i < kClosedQueues; ++i) {
    const std::string queue = "closed-" + std::to_string(i);
    ASSERT_TRUE(world.eyes->pause({queue, {}, "ann", ""}));
    for (int task = 0; task < 4; ++task)
      world.insert(queue, world.now() - (task < 2 ? kAMinute : Ms{0}) + Ms{i / 10},
                   (i + task * 16) % kShards);
  }
  world.loop.run_for(Ms{3000});
  Ms latest{0};
  for (int i = 0; i < 10; ++i) {
    const TaskId loaded = scheduled("invoices", Ms{150}, i);
    const TaskId fired = world.insert("invoices", world.now(), i);  // only the sweep finds it
    for (const TaskId id : {loaded, fired}) {
      const EpochMs due = *world.row(id).next_at;
      ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }, Ms{10'000}));
      latest = std::max(latest, world.now() - due);
    }
  }
  EXPECT_LE(latest, Ms{1500});
  std::printf("5,000 closed queues with 20,000 due tasks: an open queue's task is late by at most %lld ms\n",
              static_cast<long long>(latest.count()));
  // One that opens flows, whatever stands still around it.
  resume("closed-4999");
  EXPECT_TRUE(world.loop.run_until(
      [&] {
        Filter of;
        of.queue = "closed-4999";
        of.state = State::scheduled;
        return world.eyes->count(of, 10).value() == 0;
      },
      Ms{5000}));
}

class ManyPauses : public testing::Test {
 protected:
  static constexpr std::size_t kMostHeld = 1000;
  World world;
  Flow flow{world, {.horizon = {Ms{600'000}, 10'000}, .most_held = kMostHeld}};
};

// They don't empty the heap for the others.
TEST_F(ManyPauses, ClosedQueuesKeepFewTasksInAllAndAllGoOutInTheEnd) {
  flow.take_shards();
  flow.janitor.start();
  flow.gates.start();
  constexpr int kQueues = 20, kEach = 400;
  const auto queue_of = [](int i) { return "closed-" + std::to_string(i); };
  for (int i = 0; i < kQueues / 2; ++i) ASSERT_TRUE(world.eyes->pause({queue_of(i), {}, "ann", ""}));
  world.loop.run_for(Ms{1000});
  std::vector<TaskId> ids;
  for (int i = 0; i < kQueues; ++i) {
    for (int task = 0; task < kEach; ++task) {
      ids.push_back(world.insert(queue_of(i), world.now() + Ms{2000}, task % kShards));
      flow.schedule(ids.back());
    }
  }
  const TaskId other = world.insert("invoices", world.now() + Ms{60'000});
  flow.schedule(other);
  world.loop.run_for(Ms{500});
  for (int i = kQueues / 2; i < kQueues; ++i) ASSERT_TRUE(world.eyes->pause({queue_of(i), {}, "ann", ""}));
  world.loop.run_for(Ms{20'000});
  EXPECT_LE(flow.dispatch.held(), kMostHeld + kQueues) << "one of each in any case";
  EXPECT_EQ(flow.horizon.loaded(), 1U) << "the other queue's task is still in memory";
  for (int i = 0; i < kQueues; ++i) ASSERT_TRUE(world.eyes->resume(queue_of(i), "ann", "").value().any());
  EXPECT_TRUE(world.loop.run_until(
      [&] {
        Filter waits;
        waits.state = State::scheduled;
        return world.eyes->count(waits, 10).value() <= 1;
      },
      Ms{20'000}));
}

TEST_F(BigPause, AllGoesOutWhenItIsResumed) {
  world.rules = story_rules(5000);
  overdue_backlog(kBig);
  world.loop.run_for(Ms{10'000});
  resume("orders");
  EXPECT_TRUE(world.loop.run_until([&] { return flow.broker.depth("orders") == kBig; }, Ms{20'000}))
      << flow.broker.depth("orders");
}

// --- the cost of what arrives

// Microseconds of the loop for one report of one queue, with so many queues that have a breaker.
double report_us(int queues) {
  QueueRules rules{.ladder = "default", .silence = {}, .catch_up = 1000};
  rules.gate.breaker = BreakerRules{};
  RuleBook::Queues listed;
  const auto name = [](int i) { return "queue-" + std::to_string(i); };
  for (int i = 0; i < queues; ++i) listed[name(i)] = rules;
  World world;
  world.rules =
      std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                 listed, RuleBook::Tags{}, rules);
  Flow flow(world);
  flow.take_shards();
  flow.gates.start();
  world.loop.run_for(Ms{100});
  GateState state;
  const auto report = [&](int i) {
    state.queue = name(i % queues);
    state.seen_at = world.now();
    state.breaker.outcomes = i % 2 == 0 ? "..x" : ".x.";
    state.breaker.last_probe = i;  // it differs from the one before
    flow.gates.arrived({state});
  };
  for (int i = 0; i < queues; ++i) report(i);
  constexpr int kReports = 2000;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < kReports; ++i) report(queues + i);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
  return took.count() / kReports;
}

TEST(GatesCost, OfAReportIsTheSameHoweverManyQueuesThereAre) {
  const double few = report_us(100), more = report_us(1000), many = report_us(10'000);
  std::printf("a report costs the loop %.1f us with 100 queues, %.1f us with 1,000, %.1f us with 10,000\n",
              few, more, many);
  EXPECT_LT(many, few * 20 + 50) << "not a hundred times as much";
}

}  // namespace
}  // namespace rung::bridge
