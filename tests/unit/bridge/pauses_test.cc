// Pauses by hand in the flow->
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::ElementsAre;

class PauseStory : public GateStory {
 protected:
  PauseStory() { begin(story_rules()); }
  void pause(const std::string& queue, std::optional<EpochMs> until = {}) {
    world.pause(queue, until);
    world.loop.run_for(Ms{600});
  }
  void resume(const std::string& queue) { world.resume(queue); }
};

TEST_F(PauseStory, ATaskOfAPausedQueueWaitsAndLosesNothing) {
  pause("orders");
  const TaskId held = scheduled("orders", Ms{200}), other = scheduled("invoices", Ms{200});
  world.loop.run_for(kAMinute);
  EXPECT_EQ(flow->broker.depth("orders"), 0U);
  EXPECT_EQ(flow->attempts_in("invoices"), (std::vector<int>{1}));
  EXPECT_EQ(world.row(other).state, State::awaiting);
  const Task task = world.row(held);
  EXPECT_EQ(task.state, State::scheduled);
  EXPECT_EQ(task.attempt, 0);
  EXPECT_EQ(task.level, 1);
  EXPECT_TRUE(world.eyes->history(held).empty());
  const EpochMs due = *task.next_at, resumed = world.now();
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow->attempts_in("orders"), (std::vector<int>{1}));
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
  EXPECT_EQ(flow->broker.depth("orders"), 0U);
  world.run_until(until + Ms{100});
  EXPECT_THAT(sent(), ElementsAre(first, second, third));
}

TEST_F(PauseStory, ATaskThatMovesFollowsTheGateOfItsNewQueue) {
  pause("orders");
  const auto redrive = [&](const std::string& from, const std::string& to) {
    const TaskId id = world.insert(from, world.now(), 5, [](Task& task) { task.state = State::parked; });
    Target elsewhere;
    elsewhere.queue = to;
    const auto decision = flow->say({id, event::Redrive{elsewhere}, ByHand{"ann", {}}});
    EXPECT_EQ(decision->verdict, Decision::Verdict::applied);
  };
  redrive("orders", "invoices");
  redrive("invoices", "orders");
  world.loop.run_for(Ms{10'000});
  EXPECT_EQ(flow->broker.depth("invoices"), 1U);
  EXPECT_EQ(flow->broker.depth("orders"), 0U);
}

TEST_F(PauseStory, AFiredTaskWaitsToo) {
  pause("orders");
  const TaskId id = scheduled("orders", Ms{3'600'000});
  ASSERT_EQ(flow->say({id, event::Fire{}, ByHand{"ann", {}}})->verdict, Decision::Verdict::applied);
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(flow->broker.depth("orders"), 0U);
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow->broker.depth("orders"), 1U);
}

// A claim whose publish was lost is repeated, but not into a paused queue.
TEST_F(PauseStory, ARepeatWaitsUnderItsAttempt) {
  flow->broker.hold_confirms();
  const TaskId id = scheduled("orders", Ms{0});
  world.loop.run_for(Ms{100});
  ASSERT_EQ(flow->broker.depth("orders"), 1U);
  ASSERT_EQ(world.row(id).state, State::publishing);
  pause("orders");
  flow->broker.drop_connection();
  flow->broker.release_confirms();
  world.loop.run_for(kAMinute);
  EXPECT_EQ(flow->broker.depth("orders"), 1U);
  resume("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow->attempts_in("orders"), (std::vector<int>{1, 1}));
  EXPECT_EQ(world.row(id).attempt, 1);
}

class BigPause : public PauseStory {
 protected:
  static constexpr int kBig = 8000;
  // Overdue for a minute, in all shards, before the sweep sees one of them.
  BigPause() {
    pause("orders");
    for (int i = 0; i < kBig; ++i) world.insert("orders", world.now() - kAMinute + Ms{i / 10}, i % kShards);
    world.loop.run_for(Ms{5000});
  }
  std::size_t steps_of(Ms time) {
    const EpochMs end = world.now() + time;
    std::size_t steps = 0;
    while (world.now() < end && world.loop.step()) ++steps;
    return steps;
  }
};

TEST_F(BigPause, OtherQueuesKeepTheirTime) {
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = flow->broker.depth("invoices");
    flow->schedule(world.insert("invoices", world.now() + Ms{150}, i));
    world.loop.run_for(Ms{155});
    EXPECT_EQ(flow->broker.depth("invoices"), before + 1) << i;
    // Another instance, or the command line: only the sweep finds it.
    const TaskId fired = world.insert("invoices", world.now() + Ms{3'600'000}, i);
    world.apply(Fence{}, {fired, event::Fire{}, ByHand{"ann", {}}});
    world.loop.run_for(Ms{1500});
    EXPECT_EQ(world.row(fired).state, State::awaiting) << i;
  }
  EXPECT_EQ(flow->broker.depth("orders"), 0U);
}

// As after an outage: it is due for longer than the sweep calls recent.
TEST_F(BigPause, WhatIsOldAndBehindItIsFoundToo) {
  const TaskId old = world.insert("invoices", world.now() - Ms{30'000});
  world.loop.run_for(Ms{6000});
  EXPECT_EQ(world.row(old).state, State::awaiting);
}

TEST_F(BigPause, ABulkFiredIntoItDelaysNobody) {
  for (int i = 0; i < kBig; ++i) world.insert("orders", world.now(), i % kShards);
  const TaskId fired = world.insert("invoices", world.now());
  world.loop.run_for(Ms{1500});
  EXPECT_EQ(world.row(fired).state, State::awaiting);
}

TEST_F(BigPause, TakesLittleMemoryAndNoTime) {
  world.loop.run_for(Ms{5000});
  EXPECT_LE(flow->dispatch.held(), 5000U);
  EXPECT_EQ(flow->dispatch.ready(), 0U);
  EXPECT_LE(steps_of(Ms{10'000}), 400U) << "20 ms timers would make 500 more";
}

// Each with tasks that are due: no list of them is in a statement, and they don't hide an open queue's tasks.
TEST_F(PauseStory, TwoThousandClosedQueuesDelayNoOther) {
  constexpr int kClosedQueues = 2000;
  for (int i = 0; i < kClosedQueues; ++i) {
    const std::string queue = "closed-" + std::to_string(i);
    world.pause(queue);
    for (int task = 0; task < 4; ++task)
      world.insert(queue, world.now() - (task < 2 ? kAMinute : Ms{0}) + Ms{i / 10},
                   (i + task * 16) % kShards);
  }
  world.loop.run_for(Ms{3000});
  Ms latest{0};
  for (int i = 0; i < 10; ++i) {
    const TaskId loaded = world.insert("invoices", world.now() + Ms{150}, i);
    flow->schedule(loaded);
    const TaskId fired = world.insert("invoices", world.now(), i);  // only the sweep finds it
    for (const TaskId id : {loaded, fired}) {
      const EpochMs due = *world.row(id).next_at;
      ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }, Ms{10'000}));
      latest = std::max(latest, world.now() - due);
    }
  }
  EXPECT_LE(latest, Ms{1500});
  // One that opens flows, whatever stands still around it.
  flow->broker.declare("closed-1999");
  resume("closed-1999");
  EXPECT_TRUE(world.loop.run_until([&] { return flow->broker.depth("closed-1999") == 4; }, Ms{5000}));
}

// They don't empty the heap for the others.
TEST(ManyPauses, ClosedQueuesKeepFewTasksInAllAndAllGoOutInTheEnd) {
  constexpr std::size_t kMostHeld = 1000;
  World world;
  Flow flow(world, {.max_loaded = 10 * kMostHeld});
  flow.take_shards();
  flow.janitor.start();
  flow.gates.start();
  constexpr int kQueues = 20, kEach = 400;
  const auto queue_of = [](int i) { return "closed-" + std::to_string(i); };
  for (int i = 0; i < kQueues / 2; ++i) world.pause(queue_of(i));
  world.loop.run_for(Ms{1000});
  std::vector<TaskId> ids;
  for (int i = 0; i < kQueues; ++i) {
    flow.broker.declare(queue_of(i));
    for (int task = 0; task < kEach; ++task) {
      ids.push_back(world.insert(queue_of(i), world.now() + Ms{2000}, task % kShards));
      flow.schedule(ids.back());
    }
  }
  const TaskId other = world.insert("invoices", world.now() + Ms{60'000});
  flow.schedule(other);
  world.loop.run_for(Ms{500});
  for (int i = kQueues / 2; i < kQueues; ++i) world.pause(queue_of(i));
  world.loop.run_for(Ms{20'000});
  EXPECT_LE(flow.dispatch.held(), kMostHeld + kQueues) << "one of each in any case";
  EXPECT_EQ(flow.horizon.loaded(), 1U) << "the other queue's task is still in memory";
  for (int i = 0; i < kQueues; ++i) world.resume(queue_of(i));
  EXPECT_TRUE(world.loop.run_until(
      [&] {
        for (int i = 0; i < kQueues; ++i)
          if (flow.broker.depth(queue_of(i)) != kEach) return false;
        return true;
      },
      Ms{20'000}));
}

}  // namespace
}  // namespace rung::bridge
