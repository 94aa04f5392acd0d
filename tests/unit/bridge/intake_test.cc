// A delivery becomes a row, and is acked only then.
#include "src/bridge/intake/intake.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class IntakeStory : public testing::Test {
 protected:
  IntakeStory() { flow.take_shards(); }
  // Its headers, as a consumer copies them from the delivery of that task.
  Table headers_of(TaskId id) {
    const Task task = world.row(id);
    return {{std::string(header::kId), id.str()},
            {std::string(header::kAttempt), std::int32_t{task.attempt}},
            {std::string(header::kToken), flow.proof.token(task)}};
  }

  World world;
  Flow flow{world};
};

TEST_F(IntakeStory, ADeliveryIsAckedWhenItsRowIsCommittedAndNotBefore) {
  flow.jobs.by_hand(Lane::flow);
  ASSERT_TRUE(flow.put_failed("orders"));
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.unacked(), 1U) << "nothing is committed yet";
  world.db->fail_next(1);
  ASSERT_TRUE(flow.jobs.run_next());
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.unacked(), 1U);
  ASSERT_TRUE(flow.jobs.run_next());
  world.loop.run_for(Ms{0});
  EXPECT_EQ(flow.broker.unacked(), 0U);
  ASSERT_EQ(world.rows().size(), 1U);
  EXPECT_EQ(world.rows()[0].task.state, State::scheduled);
}

TEST_F(IntakeStory, AnInsertWhoseAnswerIsLostIsOneRow) {
  flow.jobs.by_hand(Lane::flow);
  ASSERT_TRUE(flow.put_failed("orders"));
  world.loop.run_for(Ms{10});
  world.db->lose_next_answers(1);
  ASSERT_TRUE(flow.jobs.run_next());
  ASSERT_TRUE(flow.jobs.run_next());
  world.loop.run_for(Ms{0});
  EXPECT_EQ(flow.broker.unacked(), 0U);
  EXPECT_EQ(world.rows().size(), 1U);
}

TEST_F(IntakeStory, AnInsertWhoseLeaseWasLostGoesToAnotherShard) {
  // The first that it would take: under another epoch by now.
  world.eyes->acquire(flow.shards.node(), Flow::kIncarnation, std::vector<int>{0}, Ms{10'000}, 0);
  ASSERT_TRUE(flow.put_failed("orders"));
  world.loop.run_for(Ms{20});
  ASSERT_EQ(world.rows().size(), 1U);
  EXPECT_EQ(world.rows()[0].task.shard, 1);
  EXPECT_EQ(flow.broker.unacked(), 0U);
}

// Regression: it asked without a pause until the next cycle (2,512 questions in 3 s).
TEST_F(IntakeStory, LeasesThatWereLostUnnoticedAreRefusedOnceAndNotAskedAboutAgain) {
  world.eyes->release(flow.shards.node(), flow.shards.fence().leases);
  world.peer("peer", Ms{60'000});
  const std::size_t before = flow.jobs.submitted(Lane::flow);
  ASSERT_TRUE(flow.put_failed("orders"));
  world.loop.run_for(Ms{100});
  EXPECT_LE(flow.jobs.submitted(Lane::flow) - before, 2U);
  EXPECT_FALSE(flow.shards.any()) << "a refusal makes it look which leases are its own";
  EXPECT_EQ(flow.broker.unacked(), 1U);
}

// No message-id: nothing else tells that it is the same.
TEST_F(IntakeStory, ADeliveryWhoseConnectionIsGoneIsLeftToTheNextOne) {
  flow.jobs.by_hand(Lane::flow);
  ASSERT_TRUE(flow.put_failed("orders"));
  world.loop.run_for(Ms{10});
  ASSERT_EQ(flow.jobs.waiting(Lane::flow), 1U);
  flow.broker.drop_connection();
  world.loop.run_for(Ms{10});
  while (flow.jobs.run_next()) world.loop.run_for(Ms{10});
  EXPECT_EQ(world.rows().size(), 1U);
  EXPECT_EQ(flow.broker.unacked(), 0U);
}

TEST_F(IntakeStory, OneThatTheDatabaseRefusesTakesNoOtherDown) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(flow.put_failed("orders", "body " + std::to_string(i)));
  world.db->fail_next(2, Error::Kind::permanent);  // the batch, and then its first by itself
  world.loop.run_for(Ms{100});
  EXPECT_EQ(flow.broker.unacked(), 0U);
  ASSERT_EQ(world.rows().size(), 3U);
  ASSERT_EQ(flow.broker.depth("rung.parked"), 1U);
  EXPECT_EQ(flow.broker.contents("rung.parked")[0].body, "body 0");
}

TEST_F(IntakeStory, WhatTheDatabaseCannotHoldIsAckedWhenTheParkedQueueHasItAndARowSaysSo) {
  world.db->set_max_body(2000);
  flow.broker.hold_confirms();
  ASSERT_TRUE(flow.put_failed("orders", std::string(4000, 'b')));
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(flow.broker.unacked(), 1U);
  EXPECT_TRUE(world.rows().empty());
  flow.broker.release_confirms();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(flow.broker.unacked(), 0U);
  EXPECT_EQ(flow.broker.depth("rung.parked"), 1U);
  ASSERT_EQ(world.rows().size(), 1U);
  EXPECT_EQ(world.rows()[0].task.state, State::parked);
  EXPECT_FALSE(world.rows()[0].task.next_at) << "no copy is owed";
  // The row has no body: a redrive would send an empty one.
  const Decision redrive =
      world.apply(Fence{}, {world.rows()[0].task.id, event::Redrive{}, ByHand{"ann", {}}});
  EXPECT_EQ(redrive.verdict, Decision::Verdict::refused);
  EXPECT_NE(redrive.reason.find("in the queue rung.parked"), std::string::npos) << redrive.reason;
}

TEST_F(IntakeStory, AFailureFromAnotherQueueLeavesTheTaskThatItNamesAlone) {
  const TaskId id = world.insert_awaiting("orders");
  ASSERT_TRUE(flow.put_failed("invoices", "body", headers_of(id)));
  world.loop.run_for(Ms{20});
  EXPECT_EQ(world.row(id).state, State::awaiting);
  EXPECT_EQ(world.rows().size(), 2U) << "a task of its own";
}

TEST_F(IntakeStory, AFailureWithoutTheDeliverysTokenLeavesTheTaskThatItNamesAlone) {
  const TaskId id = world.insert_awaiting("orders");
  Table headers = headers_of(id);
  headers.back().second = "1-00000000000000000000000000000000";
  ASSERT_TRUE(flow.put_failed("orders", "body", headers));
  world.loop.run_for(Ms{20});
  EXPECT_EQ(world.row(id).state, State::awaiting);
  EXPECT_EQ(world.rows().size(), 2U);
}

TEST_F(IntakeStory, ADrainBeginsNothingFurtherAndWhatWaitsStaysUnacked) {
  flow.jobs.by_hand(Lane::flow);
  ASSERT_TRUE(flow.put_failed("orders", "first"));
  world.loop.run_for(Ms{10});
  ASSERT_TRUE(flow.put_failed("orders", "second"));
  world.loop.run_for(Ms{0});
  flow.intake.drain();
  flow.inserts.drain();
  EXPECT_FALSE(flow.inserts.idle()) << "the first is on its way";
  while (flow.jobs.run_next()) world.loop.run_for(Ms{10});
  EXPECT_TRUE(flow.inserts.idle());
  EXPECT_EQ(world.rows().size(), 1U);
  EXPECT_EQ(flow.broker.unacked(), 1U);
}

// tests/simulation --seed 2462: our connection had gone without our knowing, another instance had the
// delivery, and its task had ended before ours was written.
TEST(NewcomerOfAnEndedTask, IsTheSameIntakeWhereThatTaskBeganAfterItArrived) {
  World world;
  Delivery delivery;
  delivery.message.properties.message_id = "m-1";
  delivery.message.headers = Table{{std::string(header::kQueue), "orders"}};
  delivery.message.body = "body";
  const Failure failure = read_failure(delivery.message, "", "");
  const EpochMs arrived = world.now();
  const auto taken_in_at = [&](EpochMs time) {
    NewTask fresh = failed_task(delivery, failure, {*world.rules, time});
    fresh.task.id = world.ids.next(world.now());
    return fresh;
  };
  const auto insert = [&](const NewTask& task) {
    return world.eyes->insert({&task, 1}, Fence{0, {}, true}).at(0).how;
  };
  const NewTask anothers = taken_in_at(arrived + Ms{200});
  ASSERT_EQ(insert(anothers), Inserted::How::inserted);
  ASSERT_EQ(world.apply({}, {anothers.task.id, event::Cancel{}}).verdict, Decision::Verdict::applied);
  EXPECT_EQ(insert(taken_in_at(arrived)), Inserted::How::duplicate);
  EXPECT_EQ(insert(taken_in_at(arrived + Ms{60'000})), Inserted::How::inserted)
      << "the same failure later is another one";
}

// ---- Since when a newcomer has been failing. The broker's record may be of an earlier life of the message.

constexpr EpochMs kArrival{1'800'000'000'000};
constexpr Ms kDay = std::chrono::days{1};

class NewcomerTest : public testing::Test {
 protected:
  // A message that failed so long ago, by the broker's record.
  Task taken_in(Ms failed_before, std::int64_t count, Inlet inlet = Inlet::failed) {
    Delivery delivery;
    delivery.inlet = inlet;
    delivery.message.body = "body";
    FailureFacts& facts = delivery.facts.failure;
    facts.queue = "orders";
    facts.queue_by = "the header x-death";
    facts.reason = "rejected";
    facts.failed_at_s = (kArrival - failed_before).ms / 1000;
    facts.count = count;
    const Failure failure = read_failure(delivery.message, "", "", facts);
    return failed_task(delivery, failure, {rules_, kArrival, 0.5}).task;
  }

  const RuleBook rules_ = [] {
    QueueRules defaults{.ladder = "default", .silence = {}};
    defaults.give_up.after = 7 * kDay;
    return RuleBook(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}, Ms{2000}})}},
                    RuleBook::Queues{}, RuleBook::Tags{}, defaults);
  }();
};

TEST_F(NewcomerTest, ARecordOfAnEarlierLifeDoesNotParkAMessageAtItsFirstFailure) {
  for (const std::int64_t count : {0, 1, 2}) {
    const Task task = taken_in(400 * kDay, count);
    EXPECT_EQ(task.state, State::scheduled) << count << ": " << task.rule;
    EXPECT_EQ(task.first_failed_at, kArrival) << count;
    EXPECT_EQ(counted_age(task, kArrival), Ms{0}) << count;
  }
}

TEST_F(NewcomerTest, ARecordWithFurtherDeathsHasTheTimeOfTheFirstOfThem) {
  EXPECT_EQ(taken_in(3 * kDay, 2).first_failed_at, kArrival);
}

TEST_F(NewcomerTest, WhatWaitedForUsIsShownWithTheTimeOfItsFailureAndIsNotOlderForIt) {
  for (const Ms wait : {2 * kDay, 8 * kDay, 29 * kDay}) {
    const Task task = taken_in(wait, 1);
    EXPECT_EQ(task.first_failed_at, kArrival - wait);
    EXPECT_EQ(task.state, State::scheduled) << task.rule;
    EXPECT_EQ(counted_age(task, kArrival), Ms{0});
  }
}

TEST_F(NewcomerTest, AnErrorQueueKeepsMessagesForAsLongAsNobodyLooks) {
  const Task task = taken_in(400 * kDay, 1, Inlet::error);
  EXPECT_EQ(task.first_failed_at, kArrival - 400 * kDay);
  EXPECT_EQ(task.state, State::scheduled) << task.rule;
}

TEST_F(NewcomerTest, WithinThePrecisionOfTheRecordOurOwnClockCounts) {
  EXPECT_EQ(taken_in(Ms{1500}, 1).first_failed_at, kArrival);
  EXPECT_EQ(taken_in(-Ms{60'000}, 1).first_failed_at, kArrival) << "a broker whose clock is ahead";
}

}  // namespace
}  // namespace rung::bridge
