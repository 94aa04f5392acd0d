// The breaker's states, and what each outcome does to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/gates/gates.h"

namespace rung {
namespace {

class BreakerTest : public ::testing::Test {
 protected:
  using State = Breaker::State;
  using Kind = DeliveryOutcome::Kind;
  static constexpr EpochMs kStart{1'700'000'000'000};
  static constexpr Ms kSecond{1000};

  void put(Kind kind, int times = 1, int probe = 0, const std::string& error = "timed out") {
    PendingOutcomes seen;
    for (int i = 0; i < times; ++i) seen.add({kind, probe, error}, rules.of_last);
    for (const DeliveryOutcome& outcome : seen.all()) record(breaker, rules, outcome, silence, now);
  }
  int probe() { return take_probe(breaker, rules, now); }
  void open_it() {
    put(Kind::failed, rules.open_after);
    ASSERT_EQ(breaker.state, State::open);
  }

  BreakerRules rules{.open_after = 3, .of_last = 10, .only = {}, .wait = {kSecond * 30, kSecond * 120}};
  Silence silence{Silence::Means::failure};
  Breaker breaker;
  EpochMs now = kStart;
};

TEST_F(BreakerTest, OpensWhenSoManyOfTheLastFailed) {
  put(Kind::failed, 2);
  put(Kind::succeeded, 8);
  EXPECT_EQ(breaker.state, State::closed);
  put(Kind::failed);  // the first failure is no longer among the last ten
  EXPECT_EQ(breaker.state, State::closed);
  put(Kind::failed, 2, 0, "HTTP 503\n  at pay.py:17\n  at shop.py:4");
  EXPECT_EQ(breaker.state, State::open);
  EXPECT_EQ(breaker.until, now + kSecond * 30);
  EXPECT_EQ(breaker.opened_at, now);
  EXPECT_EQ(breaker.reason, "3 of the last 10 deliveries failed, the last one with: HTTP 503");
}

TEST_F(BreakerTest, WhatWaitsToBeCountedKeepsLittleOfAnError) {
  PendingOutcomes seen;
  seen.add({Kind::failed, 0, std::string(16'000, 'x')}, rules.of_last);
  seen.add({Kind::failed, 7, std::string(16'000, 'x')}, rules.of_last);
  for (const DeliveryOutcome& outcome : seen.all()) EXPECT_EQ(outcome.error, std::string(200, 'x'));
}

TEST_F(BreakerTest, SendsOneProbeForEachWaitAndWaitsLongerEachTime) {
  rules.probes = 1;
  open_it();
  EXPECT_EQ(probe(), 0) << "not before its wait is over";
  for (const int wait : {30, 120, 120}) {
    now = now + kSecond * wait - Ms{1};
    EXPECT_EQ(probe(), 0);
    now = now + Ms{1};
    const int number = probe();
    ASSERT_GT(number, 0);
    EXPECT_EQ(breaker.state, State::half_open);
    EXPECT_EQ(probe(), 0) << "one at a time";
    put(Kind::published, 1, number);
    put(Kind::failed, 1, number);
    EXPECT_EQ(breaker.state, State::open);
    EXPECT_THAT(breaker.reason, ::testing::StartsWith("a probe failed: "));
    EXPECT_EQ(breaker.opened_at, kStart) << "it has not been closed since";
  }
}

TEST_F(BreakerTest, ClosesAfterSuccessfulProbesInARow) {
  open_it();
  now = now + kSecond * 30;
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(breaker.state, State::closed);
    const int number = probe();
    ASSERT_GT(number, 0);
    put(Kind::published, 1, number);
    put(Kind::succeeded, 1, number);
  }
  EXPECT_EQ(breaker.state, State::closed);
  EXPECT_EQ(breaker.since, now);
  open_it();
  EXPECT_EQ(breaker.until, now + kSecond * 30) << "the first wait again";
}

TEST_F(BreakerTest, SeveralProbesAtOnceButNotMoreThanAreNeeded) {
  rules.probes = 5;
  rules.close_after = 2;
  open_it();
  now = now + kSecond * 30;
  const int first = probe(), second = probe();
  EXPECT_GT(first, 0);
  EXPECT_GT(second, first);
  EXPECT_EQ(probe(), 0);
  put(Kind::succeeded, 1, second);
  EXPECT_EQ(probe(), 0) << "the first is all that is needed now";
  put(Kind::succeeded, 1, first);
  EXPECT_EQ(breaker.state, State::closed);
}

TEST_F(BreakerTest, WhatWasSentBeforeItOpenedDoesNotCount) {
  open_it();
  const Breaker before = breaker;
  put(Kind::failed, 5);
  put(Kind::succeeded, 5);
  put(Kind::succeeded, 1, 77);  // a probe of long ago
  EXPECT_EQ(breaker, before);
}

TEST_F(BreakerTest, AProbeWithoutAnAnswerHasFailed) {
  open_it();
  now = now + kSecond * 30;
  put(Kind::published, 1, probe());
  now = now + rules.probe_timeout;
  EXPECT_FALSE(expire_probes(breaker, rules, silence, now));
  now = now + Ms{1};
  EXPECT_TRUE(expire_probes(breaker, rules, silence, now));
  EXPECT_EQ(breaker.state, State::open);
  EXPECT_EQ(breaker.reason, "a probe got no answer");
  EXPECT_EQ(breaker.until, now + kSecond * 120);
}

TEST_F(BreakerTest, WhereSilenceIsASuccessAProbeWithoutAnAnswerHasSucceeded) {
  silence.means = Silence::Means::success;
  open_it();
  now = now + kSecond * 30;
  for (int i = 0; i < 3; ++i) {
    put(Kind::published, 1, probe());
    now = now + rules.probe_timeout + Ms{1};
    EXPECT_TRUE(expire_probes(breaker, rules, silence, now));
  }
  EXPECT_EQ(breaker.state, State::closed);
}

TEST_F(BreakerTest, AProbeThatWasNeverPublishedSaysNothing) {
  open_it();
  now = now + kSecond * 30;
  ASSERT_GT(probe(), 0);
  now = now + kSecond * 10;
  EXPECT_TRUE(expire_probes(breaker, rules, silence, now));
  EXPECT_EQ(breaker.state, State::half_open);
  const int number = probe();
  EXPECT_GT(number, 0) << "another may go";
  put(Kind::dropped, 1, number);
  EXPECT_GT(probe(), 0);
}

TEST_F(BreakerTest, WhereSilenceIsASuccessADeliveryCountsUntilItFails) {
  silence.means = Silence::Means::success;
  put(Kind::published, 10);
  EXPECT_EQ(breaker.outcomes, "..........");
  put(Kind::succeeded, 5);  // reported beside: counted already
  put(Kind::failed, 2);
  EXPECT_EQ(breaker.outcomes, "........xx");
  put(Kind::failed);
  EXPECT_EQ(breaker.state, State::open);
}

TEST_F(BreakerTest, OnlyTheErrorsOfItsListCount) {
  rules.only = {"Timeout*"};
  Task task;
  task.attempt = 2;
  Attempt attempt;
  attempt.attempt = 2;
  attempt.outcome = Outcome::failed;
  attempt.error = "no answer";
  task.error_type = "TimeoutError";
  EXPECT_EQ(outcome_of(task, attempt, rules)->kind, Kind::failed);
  EXPECT_EQ(outcome_of(task, attempt, rules)->error, "no answer");
  task.error_type = "ValidationError";
  EXPECT_EQ(outcome_of(task, attempt, rules)->kind, Kind::succeeded) << "the target answered";
  attempt.outcome = Outcome::pending;
  EXPECT_FALSE(outcome_of(task, attempt, rules)) << "claimed, not published";
  attempt.published_at = kStart;
  task.probe = 4;
  EXPECT_EQ(outcome_of(task, attempt, rules)->kind, Kind::published);
  EXPECT_EQ(outcome_of(task, attempt, rules)->probe, 4);
  attempt.attempt = 1;
  EXPECT_EQ(outcome_of(task, attempt, rules)->probe, 0) << "an earlier attempt was no probe";
}

TEST_F(BreakerTest, TheFlowGrowsAgain) {
  EXPECT_EQ(ramp_up(breaker, now), 1.0) << "it has never been open";
  breaker.since = now;
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now), 0.1);
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now + Ms{999}), 0.1);
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now + Ms{1000}), 0.2);
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now + Ms{3500}), 0.8);
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now + Ms{4000}), 1.0);
  EXPECT_DOUBLE_EQ(ramp_up(breaker, now + Ms{400'000'000}), 1.0);
}

// The row is a person's to edit: the number must leave room for those that follow.
TEST_F(BreakerTest, ANumberOfAProbeThatCannotBeIsReadAsNone) {
  for (const auto& [text, kept] :
       {std::pair{"2000000000", 2'000'000'000}, {"2000000001", 0}, {"0", 0}, {"-1", 0}}) {
    Breaker read;
    const bool whole = read_detail(read, R"({"last_probe": )" + std::string(text) + "}");
    EXPECT_EQ(read.last_probe, kept) << text;
    EXPECT_EQ(whole, std::to_string(kept) == text) << text;
  }
}

}  // namespace
}  // namespace rung
