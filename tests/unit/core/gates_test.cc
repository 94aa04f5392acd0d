// Which of a queue's gates is in force, for how long it was closed, and what instances change about them.
#include "src/core/gates/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace rung {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr EpochMs kThen{1'700'000'000'000};

Breaker broken(Breaker::State state, std::optional<EpochMs> until) {
  Breaker breaker;
  breaker.state = state;
  breaker.since = breaker.opened_at = kThen;
  breaker.until = until;
  breaker.reason = "20 of 100 failed";
  return breaker;
}

TEST(GateInForceTest, OfSeveralTheFirstThatHasNotEnded) {
  const Pause pause{"orders", kThen, kThen + 1s, "ann", "down", "", false};
  const GateState::Hold outside{kThen, kThen + 2s, "window"}, hold{kThen, kThen + 3s, "task 7"},
      limited{kThen, kThen + 9s, "rate 1/s"};
  const Breaker breaker = broken(Breaker::State::open, kThen + 5s);
  HeldBy held{&pause, &outside, &hold, &breaker, &limited};
  const auto expect = [&](Ms after, GateKind by, std::string_view word, std::string_view reason,
                          std::string_view who) {
    const auto gate = gate_in_force(held, kThen + after);
    ASSERT_TRUE(gate) << word;
    EXPECT_EQ(gate->by, by) << word;
    EXPECT_EQ(gate->word, word);
    EXPECT_EQ(gate->since, kThen) << word;
    EXPECT_EQ(gate->reason, reason) << word;
    EXPECT_EQ(gate->who, who) << word;
  };
  expect(999ms, GateKind::pause, "paused", "down", "ann");
  expect(1s, GateKind::window, "outside_window", "window", "");
  expect(2s, GateKind::retry_after, "paused", "task 7", "retry-after");
  expect(3s, GateKind::breaker, "breaker_open", breaker.reason, "");
  expect(5s, GateKind::breaker, "breaker_half_open", breaker.reason, "");
  held.breaker = nullptr;
  expect(8999ms, GateKind::limit, "rate_limited", "rate 1/s", "");
  EXPECT_FALSE(gate_in_force(held, kThen + 9s));
}

TEST(GateInForceTest, ForPeopleWhatInstancesHaveConfirmedWithinAMinute) {
  GateState state;
  state.breaker = broken(Breaker::State::half_open, {});
  state.seen_at = kThen;
  EXPECT_TRUE(gate_in_force(held_by(nullptr, &state, kThen + 59s), kThen + 59s));
  EXPECT_FALSE(gate_in_force(held_by(nullptr, &state, kThen + 60s), kThen + 60s));
  state.retry_after = {kThen, kThen + 1h, ""};
  EXPECT_TRUE(gate_in_force(held_by(nullptr, &state, kThen + 60s), kThen + 60s))
      << "a consumer's wish is none of the config's";
}

// A rule of another config, or of before a reload, does not hold back a queue.
TEST(KnownGatesTest, WhatTheConfigDoesNotHaveIsNotInForce) {
  KnownGates known;
  known.state = GateState{};
  known.state->breaker = broken(Breaker::State::half_open, {});
  known.state->retry_after = {kThen, kThen + 1h, ""};
  known.state->outside = known.state->limited = known.state->retry_after;  // for people
  GateRules rules;
  EXPECT_FALSE(known.in_force(rules, nullptr, kThen));
  rules.breaker = BreakerRules{};
  EXPECT_EQ(known.in_force(rules, nullptr, kThen)->by, GateKind::breaker);
  rules.retry_after.pauses_queue = true;
  EXPECT_EQ(known.in_force(rules, nullptr, kThen)->by, GateKind::retry_after);
  const WindowNow open{kThen, kThen + 2h, true}, closed{kThen, kThen + 2h, false};
  EXPECT_EQ(known.in_force(rules, &open, kThen)->by, GateKind::retry_after);
  EXPECT_EQ(known.in_force(rules, &closed, kThen)->by, GateKind::window);
  EXPECT_EQ(known.in_force(rules, &closed, kThen)->until, kThen + 2h);
}

TEST(KnownGatesTest, TimesOfWhatWasReplacedAreKept) {
  GateRules rules;
  rules.breaker = BreakerRules{};
  rules.retry_after.pauses_queue = true;
  KnownGates known;
  GateState state;
  state.retry_after = {kThen, kThen + 10s, ""};
  known.take(state, rules, kThen);
  state.retry_after = {kThen + 20s, kThen + 25s, ""};
  known.take(state, rules, kThen + 20s);
  state.breaker = broken(Breaker::State::open, {});
  state.breaker.opened_at = kThen + 30s;
  known.take(state, rules, kThen + 30s);
  EXPECT_EQ(known.closed_between(kThen, kThen + 31s, rules), 16s);
  EXPECT_EQ(known.closed_between(kThen + 5s, kThen + 22s, rules), 7s);
  EXPECT_EQ(known.closed_between(kThen + 5s, kThen + 5s, rules), 0s);
}

class GateNoteTest : public ::testing::Test {
 protected:
  GateNoteTest() {
    rules.gate.breaker = BreakerRules{};
    rules.gate.breaker->open_after = 2;
    rules.gate.breaker->close_after = 1;
  }
  int apply(const GateNote& note) {
    return apply_note(state, note, rules, now, [this](const Breaker& b) { turned.push_back(b.state); });
  }
  int apply(DeliveryOutcome::Kind kind, int times, int probe = 0) {
    GateNote note;
    for (int i = 0; i < times; ++i) note.outcomes.add({kind, probe, "down"}, rules.gate.breaker->of_last);
    return apply(note);
  }

  QueueRules rules;
  GateState state;
  EpochMs now = kThen;
  std::vector<Breaker::State> turned;
};

TEST_F(GateNoteTest, TellsOfABreakerThatOpensAgainAndCloses) {
  using Kind = DeliveryOutcome::Kind;
  const GateNote asks = [] {
    GateNote note;
    note.probe = true;
    return note;
  }();
  EXPECT_EQ(apply(Kind::failed, 1), 0);
  EXPECT_EQ(apply(asks), 0) << "it is closed";
  EXPECT_THAT(turned, ::testing::IsEmpty());
  apply(Kind::failed, 1);
  now = now + 30s;
  EXPECT_EQ(next_turn(state.breaker, *rules.gate.breaker), now);
  const int first = apply(asks);
  ASSERT_NE(first, 0);
  EXPECT_EQ(next_turn(state.breaker, *rules.gate.breaker), now + 5001ms) << "it may never be published";
  apply(Kind::failed, 1, first);
  now = now + 2min;
  const int second = apply(asks);
  apply(Kind::published, 1, second);
  EXPECT_EQ(next_turn(state.breaker, *rules.gate.breaker), now + 1min + 1ms);
  apply(Kind::succeeded, 1, second);
  EXPECT_FALSE(next_turn(state.breaker, *rules.gate.breaker));
  using State = Breaker::State;
  EXPECT_THAT(turned, ::testing::ElementsAre(State::open, State::open, State::closed));
}

TEST_F(GateNoteTest, OfHoldsTheLongestWinsAndANewOneBeginsNow) {
  const auto hold = [&](Ms wait) {
    GateNote note;
    note.hold = {wait, format_utc(now)};
    apply(note);
    return *state.retry_after;
  };
  EXPECT_EQ(hold(10s).until, kThen + 10s);
  now = kThen + 1s;
  EXPECT_EQ(hold(5s).until, kThen + 10s);
  EXPECT_EQ(hold(20s).until, kThen + 21s);
  EXPECT_EQ(state.retry_after->since, kThen);
  now = kThen + 21s;
  EXPECT_EQ(hold(1s).since, now);
}

TEST(SendRateTest, GrowsAfterABreakerHasClosed) {
  QueueRules rules;
  rules.catch_up = 100;
  Breaker breaker;
  EXPECT_EQ(send_rate(rules, breaker, kThen), 0) << "no limit";
  breaker.since = kThen;
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen), 10);
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen + kRampStep), 20);
  rules.gate.rate = 5;
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen), 0.5);
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen + kRampStep * 4), 5);
  rules.gate.rate = 1;
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen), 0.2) << "one in 5 s at least";
  rules.gate.rate = 1.0 / 60;
  EXPECT_DOUBLE_EQ(send_rate(rules, breaker, kThen), rules.gate.rate) << "but no more than its own";
}

TEST(FormatRate, InTheLargestUnitOfWhichItIsAWholeNumber) {
  EXPECT_EQ(format_rate(20), "20/s");
  EXPECT_EQ(format_rate(0.5), "30/m");
  EXPECT_EQ(format_rate(1.0 / 3600), "1/h");
}

// ---- a limited rate

constexpr BootMs kFrom{5'000'000};

int taken(TokenBucket& bucket, double per_second, BootMs now) {
  bucket.fill(per_second, now);
  int count = 0;
  for (; bucket.has(); ++count) bucket.take();
  return count;
}

// Those who take late, by less than the burst, lose nothing.
TEST(TokenBucket, KeepsTheRateExactly) {
  std::minstd_rand dice(7);
  for (const double rate : {0.5, 10.0, 200.0, 3333.0}) {
    TokenBucket bucket(kFrom);
    int count = 0;
    for (BootMs now = kFrom; now < kFrom + Ms{100'000};
         now = now + Ms{std::uniform_int_distribution(1, 100)(dice)})
      count += taken(bucket, rate, now);
    EXPECT_NEAR(count, rate * 100, rate * 0.1 + 1) << rate;
  }
}

TEST(TokenBucket, SavesUpOneAndWhatTheRateGivesIn100Ms) {
  TokenBucket bucket(kFrom);
  EXPECT_EQ(taken(bucket, 200, kFrom), 0) << "it began empty";
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'000}), 21);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'004}), 0);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'005}), 1);
}

TEST(TokenBucket, AnotherRateAppliesFromNowOn) {
  TokenBucket bucket(kFrom);
  EXPECT_EQ(taken(bucket, 1.0 / 3600, kFrom + Ms{1000}), 0);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{1100}), 20);
  EXPECT_EQ(taken(bucket, 1.0 / 3600, kFrom + Ms{1200}), 0);
}

TEST(TokenBucket, WithoutARateAllMayGo) {
  TokenBucket bucket(kFrom);
  bucket.fill(0, kFrom);
  for (int i = 0; i < 1'000'000; ++i) bucket.take();
  EXPECT_TRUE(bucket.has());
  EXPECT_EQ(taken(bucket, 20, kFrom), 3) << "then limited";
}

}  // namespace
}  // namespace rung
