#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "src/bridge/flight/flights.h"
#include "src/core/gates/gates.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using How = PublishResult::How;

constexpr EpochMs kTargetsNow{1'800'000'000'000};
constexpr BootMs kBoot{1'000'000};
constexpr std::size_t kMost = 100;
constexpr std::size_t kFirstWindow = 16;

class TargetsTest : public testing::Test {
 protected:
  TargetsTest() {
    for (const char* queue : {"one", "two", "three"}) flow.names.number(queue);  // 1, 2, 3
    flow.take_shards();
  }
  void add(std::uint32_t queue, std::int64_t id, Ms late = Ms{0}) {
    const io::DueItem item{TaskId{id}, kTargetsNow - late, 0, queue};
    flights.add(item);
    targets.add(item, late > kOverdueAfter);
  }
  void add_many(std::uint32_t queue, int count, Ms late = Ms{0}) {
    for (int i = 0; i < count; ++i) add(queue, ++last_id, late);
  }
  // How many of each queue went.
  std::map<std::uint32_t, int> take(std::size_t most, BootMs at = kBoot) {
    std::map<std::uint32_t, int> out;
    for (const Taken& taken : targets.take(most, at)) {
      ++out[taken.item.queue];
      targets.sent(taken.item.queue, at);
    }
    return out;
  }
  std::optional<io::DueItem> take_probe(BootMs at) {
    const auto taken = targets.take_probe(at);
    if (!taken) return std::nullopt;
    targets.sent(taken->item.queue, at);
    return taken->item;
  }
  void answer(std::uint32_t queue, int count, How how = How::confirmed, BootMs at = kBoot) {
    for (int i = 0; i < count; ++i) {
      targets.answered(queue, how, at);
      targets.end(queue);
    }
  }
  // Opens the window by as many confirms as that takes.
  void warm(std::uint32_t queue, BootMs at = kBoot) {
    add_many(queue, static_cast<int>(4 * kMost));
    for (int i = 0; i < 100 && targets.waiting() > 0; ++i)
      answer(queue, take(kMost, at)[queue], How::confirmed, at);
    ASSERT_EQ(targets.waiting(), 0U);
  }

  std::int64_t last_id = 0;
  World world;
  Flow flow{world};
  Targets targets{flow.sidecar, flights, kMost, kFirstWindow};
  Flights flights{flow.sidecar, targets};
};

TEST_F(TargetsTest, AWindowBeginsSmallAndGrowsWithEachAnswer) {
  add_many(1, 1000);
  EXPECT_EQ(take(500)[1], static_cast<int>(kFirstWindow));
  EXPECT_EQ(take(500)[1], 0) << "before any answer";
  answer(1, 16);
  EXPECT_EQ(take(500)[1], 32);
  answer(1, 32);
  EXPECT_EQ(take(500)[1], 64);
  answer(1, 64);
  EXPECT_EQ(take(500)[1], static_cast<int>(kMost)) << "and no further";
}

TEST_F(TargetsTest, AQuarterOfTheWindowGoesAtOnceAndNoHandfuls) {
  warm(1);
  add_many(1, 500);
  EXPECT_EQ(take(500)[1], 100);
  answer(1, 24);
  EXPECT_EQ(take(500)[1], 0);
  answer(1, 1);
  EXPECT_EQ(take(500)[1], 25);
  answer(1, 100);
  EXPECT_EQ(take(500)[1], 100);
  targets.clear();
  add_many(1, 3);
  answer(1, 5);
  EXPECT_EQ(take(500)[1], 3) << "all that waits";
}

TEST_F(TargetsTest, ALossMakesItSmallAgain) {
  warm(1);
  add_many(1, 500);
  EXPECT_EQ(take(500)[1], static_cast<int>(kMost));
  answer(1, static_cast<int>(kMost), How::lost);
  EXPECT_EQ(take(500)[1], static_cast<int>(kFirstWindow));
}

TEST_F(TargetsTest, OneThatDoesNotAnswerGetsNothingFurtherAndTheOthersGoOn) {
  warm(1);
  warm(2);
  add_many(1, 500);
  EXPECT_EQ(take(10)[1], 10);
  const BootMs later = kBoot + Targets::kSilent + Ms{1};
  add_many(2, 500);
  const auto went = take(50, later);
  EXPECT_FALSE(went.contains(1));
  EXPECT_EQ(went.at(2), 50);
  answer(1, 1, How::confirmed, later);  // it lives
  EXPECT_GT(take(50, later)[1], 0);
}

TEST_F(TargetsTest, AFullQueueIsAskedAgainAfterAPause) {
  warm(1);
  add_many(1, 500);
  take(1);
  answer(1, 1, How::nacked);
  EXPECT_EQ(take(100)[1], 0);
  EXPECT_EQ(take(100, kBoot + Ms{4999})[1], 0);
  EXPECT_EQ(take(100, kBoot + Ms{5000})[1], static_cast<int>(kFirstWindow));
}

TEST_F(TargetsTest, QueuesTakeTurns) {
  for (const std::uint32_t queue : {1U, 2U, 3U}) warm(queue);
  for (const std::uint32_t queue : {1U, 2U, 3U}) add_many(queue, 500);
  std::map<std::uint32_t, int> sum;
  for (int i = 0; i < 6; ++i) {
    for (const auto& [queue, count] : take(20)) {
      sum[queue] += count;
      answer(queue, count);
    }
  }
  for (const std::uint32_t queue : {1U, 2U, 3U}) EXPECT_EQ(sum[queue], 40) << queue;
}

TEST_F(TargetsTest, WhatIsOverdueGoesAtItsRate) {
  world.rules = story_rules(100);
  warm(1);
  add_many(1, 1000, Ms{3'600'000});
  int went = 0;
  for (Ms passed{0}; passed <= Ms{5000}; passed += Ms{20}) {
    const int now = take(500, kBoot + passed)[1];
    answer(1, now, How::confirmed, kBoot + passed);
    went += now;
  }
  EXPECT_GE(went, 500);
  EXPECT_LE(went, 500 + 10 + 1) << "ten are a tenth of a second's";
}

TEST_F(TargetsTest, WhatBecomesDueDoesNotWaitBehindWhatIsOverdue) {
  world.rules = story_rules(1'000'000);
  warm(1);
  add_many(1, 1000, Ms{3'600'000});
  add(1, 7777);
  std::set<std::int64_t> first;
  for (const Taken& taken : targets.take(10, kBoot)) first.insert(taken.item.id.value);
  EXPECT_TRUE(first.contains(7777));
  EXPECT_EQ(first.size(), 10U);
}

TEST_F(TargetsTest, ASmallBacklogGoesFirst) {
  warm(1);
  for (int i = 0; i < 20; ++i) {
    add(1, 10'000 + i, Ms{4000});
    add(1, 20'000 + i, Ms{6000});
  }
  std::vector<std::int64_t> ids;
  for (const Taken& taken : targets.take(40, kBoot)) ids.push_back(taken.item.id.value / 10'000);
  EXPECT_EQ(ids.size(), 40U);
  EXPECT_TRUE(std::is_sorted(ids.rbegin(), ids.rend())) << "the overdue ones are the older";
}

TEST_F(TargetsTest, WhatWasDueWhileNothingCouldGoIsOverdueThen) {
  world.rules = story_rules(10);
  warm(1);
  add_many(1, 90);
  targets.sort_out(kTargetsNow + kOverdueAfter + Ms{1});
  EXPECT_EQ(take(500)[1], 2) << "one, and a tenth of a second's";
}

TEST_F(TargetsTest, ThoseOfAHeldUpConnectionAreAskedOneByOne) {
  constexpr Ms kPatience{10'000};
  for (const std::uint32_t queue : {1U, 2U, 3U}) warm(queue);
  for (const std::uint32_t queue : {1U, 2U}) add_many(queue, 50);
  take(100);
  for (const std::uint32_t queue : {1U, 2U}) add_many(queue, 50);
  const BootMs later = kBoot + kPatience + Ms{1};
  add(3, ++last_id);
  take(1, later);  // has only just left
  targets.quarantine(later, kPatience);
  EXPECT_FALSE(targets.take_probe(later)) << "before what they have under way is over";
  answer(1, 50, How::lost, later);
  answer(2, 50, How::lost, later);
  EXPECT_TRUE(take(100, later).empty());
  const auto first = take_probe(later);
  ASSERT_TRUE(first);
  EXPECT_FALSE(targets.take_probe(later)) << "two at once";
  answer(first->queue, 1, How::lost, later);  // it was the one
  const auto second = take_probe(later);
  ASSERT_TRUE(second);
  EXPECT_NE(second->queue, first->queue);
  answer(second->queue, 1, How::confirmed, later);  // and this one goes on
  EXPECT_GT(take(100, later)[second->queue], 0);
  EXPECT_FALSE(targets.take_probe(later + Ms{1999}));
  const auto again = take_probe(later + Ms{2000});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->queue, first->queue);
  answer(again->queue, 1, How::lost, later);
  EXPECT_FALSE(targets.take_probe(later + Ms{5999})) << "ever more seldom";
  EXPECT_TRUE(targets.take_probe(later + Ms{6000}));
}

// After an outage many of those that wait are another instance's. None of them makes the queue's pause
// longer.
TEST_F(TargetsTest, AProbeThatWasNeverSentHasAskedNothing) {
  warm(1);
  add_many(1, 50);
  take(100);
  const BootMs later = kBoot + Ms{10'001};
  targets.quarantine(later, Ms{10'000});
  answer(1, 50, How::lost, later);
  add_many(1, 20);
  for (int i = 0; i < 19; ++i) {
    ASSERT_TRUE(targets.take_probe(later)) << i;
    targets.end(1);
  }
  ASSERT_TRUE(take_probe(later));
  answer(1, 1, How::confirmed, later);
  add_many(1, 5);
  EXPECT_EQ(take(100, later)[1], 5);
}

TEST_F(TargetsTest, BehindAClosedGateNobodyIsProbed) {
  add_many(1, 50);
  take(100);
  const BootMs later = kBoot + Ms{10'001};
  targets.quarantine(later, Ms{10'000});
  answer(1, kFirstWindow, How::lost, later);
  add_many(1, 1);
  flow.gates.start();
  world.pause("one");
  ASSERT_TRUE(world.loop.run_until([&] { return flow.gates.why_closed("one") != nullptr; }));
  targets.gate_changed(1, kTargetsNow);
  EXPECT_FALSE(take_probe(later));
  world.resume("one");
  ASSERT_TRUE(world.loop.run_until([&] { return flow.gates.why_closed("one") == nullptr; }));
  targets.gate_changed(1, kTargetsNow);
  EXPECT_TRUE(take_probe(later));
}

TEST_F(TargetsTest, WhatIsForgottenIsIdle) {
  warm(1);
  add_many(2, 1);
  targets.tidy(kBoot + Ms{3'600'000});
  EXPECT_EQ(take(10)[2], 1);
  add_many(3, 5);
  EXPECT_EQ(targets.waiting(), 5U);
  targets.clear();
  EXPECT_TRUE(targets.empty());
  EXPECT_TRUE(take(10).empty());
}

TEST_F(TargetsTest, TasksThatDoNotWaitAnyMoreUseNoTokensAndSendNoProbe) {
  world.rules = story_rules(10);
  warm(1);
  for (const int late : {3, 2, 1}) add(1, 900 + late, Ms{3'600'000 + late});
  for (const int id : {903, 902}) flights.drop(TaskId{id});  // they do not wait any more
  EXPECT_EQ(take(10)[1], 1);
  EXPECT_TRUE(targets.empty());
  const BootMs later = kBoot + Ms{10'001};
  targets.quarantine(later, Ms{10'000});
  answer(1, 1, How::lost, later);
  add_many(1, 2);
  flights.drop(TaskId{last_id - 1});
  const auto probe = take_probe(later);
  ASSERT_TRUE(probe);
  EXPECT_EQ(probe->id.value, last_id);
}

// ---- A connection on which nothing is answered.

class StallStory : public testing::Test {
 protected:
  StallStory() {
    flow.take_shards();
    flow.janitor.start();  // looks each second
    flow.broker.hold_confirms();
  }
  TaskId publish(const std::string& queue) {
    const TaskId id = world.insert(queue, world.now());
    flow.hand_over(id);
    return id;
  }
  std::size_t quarantined() const { return flow.dispatch.targets().quarantined; }

  World world;
  Flow flow{world};
};

TEST_F(StallStory, SeveralQueuesWithoutAnAnswerAreAskedAloneAndGoOnWhenTheyAnswer) {
  const TaskId one = publish("orders"), other = publish("invoices");
  world.loop.run_for(Ms{9000});
  EXPECT_EQ(quarantined(), 0U);
  world.loop.run_for(Ms{3000});
  EXPECT_EQ(quarantined(), 2U);
  flow.broker.release_confirms();
  ASSERT_TRUE(world.loop.run_until([&] { return quarantined() == 0; }));
  for (const TaskId id : {one, other}) {
    ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
    EXPECT_EQ(world.row(id).attempt, 1) << "published again under the same number";
  }
}

TEST_F(StallStory, OneSilentQueueAloneKeepsItsConnectionAndIsReported) {
  publish("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return flow.health.has("silent_queues"); }));
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(quarantined(), 0U);
  EXPECT_EQ(flow.broker.depth("orders"), 1U) << "not published again";
  flow.broker.release_confirms();
  ASSERT_TRUE(world.loop.run_until([&] { return !flow.health.has("silent_queues"); }));
}

TEST_F(StallStory, OneSilentQueueAmongOthersThatAnswerIsQuarantinedAndReported) {
  flow.broker.hold_confirms("orders");
  const TaskId stuck = publish("orders");
  for (int second = 0; second < 12; ++second) {
    publish("invoices");
    world.loop.run_for(Ms{1000});
  }
  EXPECT_EQ(quarantined(), 1U);
  ASSERT_TRUE(flow.health.has("silent_queues"));
  EXPECT_THAT(flow.health.problems().front().detail, testing::HasSubstr("publishes to orders:"));
  EXPECT_FALSE(flow.health.problems().front().not_ready);
  const TaskId later = publish("orders");
  world.loop.run_for(Ms{30'000});
  EXPECT_EQ(world.row(later).state, State::scheduled) << "it waits";
  EXPECT_EQ(flow.broker.depth("orders"), 1U) << "not published again";
  EXPECT_EQ(flow.broker.depth("invoices"), 12U) << "the connection stays";
  flow.broker.release_confirms();
  for (const TaskId id : {stuck, later}) {
    ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
    EXPECT_EQ(world.row(id).attempt, 1);
  }
  ASSERT_TRUE(world.loop.run_until([&] { return !flow.health.has("silent_queues"); }));
  EXPECT_EQ(quarantined(), 0U);
}

TEST_F(StallStory, AQuarantinedQueueThatBlocksAnotherOneStallsTheConnection) {
  flow.broker.hold_confirms("orders");
  publish("orders");
  for (int second = 0; second < 12; ++second) {
    publish("invoices");
    world.loop.run_for(Ms{1000});
  }
  ASSERT_EQ(quarantined(), 1U);
  flow.broker.hold_confirms();
  const TaskId blocked = publish("invoices");
  ASSERT_TRUE(world.loop.run_until([&] { return quarantined() == 2; }));
  flow.broker.hold_confirms("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(blocked).state == State::awaiting; }));
}

TEST_F(StallStory, ABrokerThatIsAwayIsNoStall) {
  publish("orders");
  publish("invoices");
  world.loop.run_for(Ms{1000});
  flow.dispatch.open(false);
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(quarantined(), 0U);
}

}  // namespace
}  // namespace rung::bridge
