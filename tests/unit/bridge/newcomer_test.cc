// Since when a newcomer has been failing. The broker's record may be of an earlier life of the message.
#include <gtest/gtest.h>

#include <chrono>

#include "src/bridge/intake/intake.h"

namespace rung::bridge {
namespace {

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
