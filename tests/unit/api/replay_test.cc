// The replay of failures: that rules, ladders and gates do in it what they do in the sidecar.
#include "src/api/rules/replay.h"

#include <gmock/gmock.h>

#include "levels/ladder.h"

namespace rung::api {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr EpochMs kMonday = kLogBegins;  // 00:00 UTC

class ReplayTest : public ::testing::Test {
 protected:
  FailedMessage message(Ms at, std::optional<Ms> works_after, const std::string& error = "HTTP 503",
                        const std::string& type = "HttpError") {
    FailedMessage m;
    m.failures.push_back({kMonday + at, log.text({error, type, FailureText::How::reported}), answer});
    if (works_after) m.works_at = kMonday + at + *works_after;
    m.answer = answer;
    return m;
  }

  void fails(Ms at, std::optional<Ms> works_after, const std::string& error = "HTTP 503",
             const std::string& type = "HttpError") {
    log.add(message(at, works_after, error, type));
  }

  RuleBook book() const {
    RuleBook::RuleLists lists;
    if (!rules.empty()) lists.emplace("shop", std::make_shared<const FailureRules>(rules));
    QueueRules all = queue;
    if (!rules.empty()) all.rules = "shop";
    return RuleBook({{"default", *levels::Ladder::from_list(delays)}}, {{"orders", all}}, {}, {}, {}, lists);
  }
  ReplayTotals run() {
    const RuleBook rules_now = book();
    return replay(log, rules_now, options);
  }
  static std::vector<Ms> since_monday(const std::vector<EpochMs>& times) {
    std::vector<Ms> out;
    for (const EpochMs at : times) out.push_back(at - kMonday);
    return out;
  }

  FailureLog log;
  std::vector<Ms> delays{10s, 1min, 10min};
  QueueRules queue;
  std::vector<FailureRule> rules;
  ReplayOptions options{"orders", 1, {}};
  Ms answer{0};
};

TEST_F(ReplayTest, ClimbsTheLadderUntilTheMessageWorks) {
  fails(0s, 60s);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.messages, 1);
  EXPECT_EQ(totals.succeeded, 1);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(10s, 70s));
  EXPECT_THAT(totals.to_success, ElementsAre(70s));
  EXPECT_EQ(totals.held, 0);
}

TEST_F(ReplayTest, AnAnswerTakesItsTime) {
  answer = 2s;
  fails(0s, 60s);
  EXPECT_THAT(since_monday(run().deliveries), ElementsAre(10s, 72s));
}

TEST_F(ReplayTest, ParksWhatNeverWorks) {
  fails(0s, {});
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.parked, 1);
  EXPECT_EQ(totals.given_up, 0);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(10s, 70s, 670s));
}

TEST_F(ReplayTest, GivesUp) {
  queue.give_up.attempts = 2;
  fails(0s, {});
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.parked, 1);
  EXPECT_EQ(totals.given_up, 1);
  EXPECT_THAT(totals.deliveries, SizeIs(2));
}

TEST_F(ReplayTest, RulesDecide) {
  FailureRule parks{"shop[1]", {}, {}, {}};
  parks.when.types = {"ValidationError"};
  parks.then.kind = RuleAction::Kind::park;
  FailureRule discards{"shop[2]", {}, {}, {}};
  discards.when.tags = {"old.*"};
  discards.then.kind = RuleAction::Kind::discard;
  rules = {parks, discards};
  fails(0s, {}, "no price", "ValidationError");
  FailedMessage old = message(0s, {});
  old.tag = "old.order";
  log.add(old);
  fails(0s, 5s);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.parked, 1);
  EXPECT_EQ(totals.discarded, 1);
  EXPECT_EQ(totals.succeeded, 1);
  EXPECT_THAT(totals.deliveries, SizeIs(1));
}

// It fails with what was recorded last before the delivery.
TEST_F(ReplayTest, TheErrorIsTheOneOfThatTime) {
  FailureRule parks{"shop[1]", {}, {}, {}};
  parks.when.types = {"Fatal"};
  parks.then.kind = RuleAction::Kind::park;
  rules = {parks};
  FailedMessage m = message(0s, {});
  m.failures.push_back({kMonday + 30s, log.text({"gone", "Fatal", FailureText::How::reported}), 0s});
  log.add(m);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.parked, 1);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(10s, 70s));
}

TEST_F(ReplayTest, SilenceIsWhatTheConfigSays) {
  FailedMessage m = message(0s, {});
  m.failures.front().text = log.text({"no word", "timed_out", FailureText::How::silent});
  log.add(m);
  queue.silence = {Silence::Means::failure, 5s};
  EXPECT_THAT(since_monday(run().deliveries), ElementsAre(10s, 75s, 680s));
  queue.silence = {Silence::Means::success, 5s};
  const ReplayTotals presumed = run();
  EXPECT_EQ(presumed.succeeded, 1);
  EXPECT_THAT(since_monday(presumed.deliveries), ElementsAre(10s));
}

// A failure after a presumed success reopens the task.
TEST_F(ReplayTest, ALateFailureReopens) {
  answer = 20s;
  queue.silence = {Silence::Means::success, 5s};
  fails(0s, {});
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.parked, 1);
  EXPECT_EQ(totals.succeeded, 0);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(10s, 90s, 710s));
}

TEST_F(ReplayTest, NoSuchQueueIsAFailure) {
  FailedMessage m = message(0s, 60s);
  m.failures.front().text = log.text({"no such queue", "returned", FailureText::How::returned});
  log.add(m);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 1);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(10s, 70s));
}

TEST_F(ReplayTest, ARateSpreadsTheLoad) {
  for (int i = 0; i < 600; ++i) fails(0s, 5s);
  EXPECT_EQ(peak_of(run().deliveries, 1s), 600);
  queue.gate.rate = 10;
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 600);
  EXPECT_LE(peak_of(totals.deliveries, 1s), 12);  // 10 and the burst
  EXPECT_NEAR(static_cast<double>((totals.deliveries.back() - totals.deliveries.front()).count()), 60'000,
              1'000);
  EXPECT_GT(totals.held, 580);
  EXPECT_NEAR(static_cast<double>(totals.held_longest.count()), 60'000, 1'000);
}

TEST_F(ReplayTest, ARateForEachValueOfAHeader) {
  for (int i = 0; i < 100; ++i) {
    FailedMessage m = message(0s, 5s);
    m.headers = {{"tenant", i % 10 == 0 ? "small" : "large"}};
    log.add(m);
  }
  queue.gate.rate_by = RateBy{"tenant", 1};
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 100);
  // 10 of one, 90 of the other, each a second apart; the burst is one more.
  const auto load = load_of(totals.deliveries, kMonday + 10s, 10s, 9);
  EXPECT_NEAR(static_cast<double>(load[0]), 20, 2);
  for (std::size_t i = 1; i < load.size(); ++i) EXPECT_NEAR(static_cast<double>(load[i]), 10, 1) << i;
}

TEST_F(ReplayTest, FewAreInFlight) {
  answer = 1s;
  queue.silence = {Silence::Means::failure, 1min};
  for (int i = 0; i < 50; ++i) fails(0s, 5s);
  queue.gate.in_flight = 5;
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 50);
  EXPECT_THAT(load_of(totals.deliveries, kMonday + 10s, 1s, 10), Each(5));
}

TEST_F(ReplayTest, AWindowHolds) {
  queue.gate.window = std::make_shared<const TimeWindow>(*TimeWindow::parse({"Mon-Fri 08:00-18:00"}, "UTC"));
  queue.give_up.after = 1h;  // the time before 08:00 is not counted
  fails(0s, 15s);
  fails(9h, 15s);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 2);
  EXPECT_THAT(since_monday(totals.deliveries), ElementsAre(8h, 9h + 10s, 9h + 70s));
  EXPECT_EQ(totals.held, 1);
  EXPECT_EQ(totals.held_longest, 8h - 10s);
}

TEST_F(ReplayTest, ARetryAfterHoldsTheQueue) {
  FailedMessage asks = message(0s, {});
  asks.failures.push_back(asks.failures.front());
  asks.failures.front().retry_after = 2min;  // no delivery of Rung's: only the message waits
  asks.failures.back().retry_after = 5min;
  log.add(asks);
  fails(100s, 15s);
  queue.gate.retry_after.pauses_queue = true;
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.deliveries.at(0), kMonday + 110s) << "the first failure holds back no other";
  EXPECT_EQ(totals.deliveries.at(1), kMonday + 2min);
  EXPECT_EQ(totals.deliveries.at(2), kMonday + 7min);
  EXPECT_EQ(totals.held, 1);
}

TEST_F(ReplayTest, WhatWaitedGoesOutAtTheCatchUpRate) {
  queue.gate.window = std::make_shared<const TimeWindow>(*TimeWindow::parse({"Mon-Fri 08:00-18:00"}, "UTC"));
  queue.catch_up = 20;
  for (int i = 0; i < 200; ++i) fails(0s, 15s);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 200);
  EXPECT_LE(peak_of(totals.deliveries, 1s), 24);
}

class ReplayBreaker : public ReplayTest {
 protected:
  ReplayBreaker() {
    delays = std::vector<Ms>(20, Ms{10s});
    queue.silence = {Silence::Means::failure, 1min};
    queue.gate.breaker = BreakerRules{};
    queue.gate.breaker->open_after = 5;
    queue.gate.breaker->of_last = 10;
    queue.gate.breaker->wait = {30s, 60s};
    queue.gate.breaker->close_after = 2;
    answer = 100ms;
  }
};

// An outage of five minutes.
TEST_F(ReplayBreaker, OpensProbesAndCloses) {
  for (int i = 0; i < 100; ++i) fails(Ms{i * 1000}, 300s - Ms{i * 1000});
  const ReplayTotals with = run();
  EXPECT_EQ(with.succeeded, 100);
  EXPECT_EQ(with.breaker_opened, 1);
  EXPECT_GE(with.probes, 4);
  EXPECT_GT(with.held, 90);
  queue.gate.breaker.reset();
  const ReplayTotals without = run();
  EXPECT_EQ(without.breaker_opened, 0);
  EXPECT_LT(with.deliveries.size() * 5, without.deliveries.size());
}

TEST_F(ReplayBreaker, AFailedProbeCostsNoAttempt) {
  delays = {10s, 10s};
  for (int i = 0; i < 10; ++i) fails(Ms{i * 100}, 10min);
  const ReplayTotals totals = run();
  // Those delivered before it opened have one level left; they wait until the target works.
  EXPECT_EQ(totals.succeeded, 10);
  EXPECT_EQ(totals.parked, 0);
  EXPECT_GE(totals.probes, 10);
}

TEST_F(ReplayBreaker, OnlySomeFailuresCount) {
  queue.gate.breaker->only = {"Timeout*"};
  for (int i = 0; i < 50; ++i) fails(Ms{i * 100}, 10min);
  EXPECT_EQ(run().breaker_opened, 0);
}

TEST_F(ReplayBreaker, ClosesAlsoWhenSilenceIsSuccess) {
  queue.silence = {Silence::Means::success, 10min};
  for (int i = 0; i < 100; ++i) fails(Ms{i * 100}, 2min);
  const ReplayTotals totals = run();
  EXPECT_EQ(totals.succeeded, 100);
  EXPECT_GE(totals.breaker_opened, 1);
}

TEST_F(ReplayTest, JitterDependsOnTheSeedAlone) {
  const auto with_seed = [&](std::uint64_t seed) {
    options.seed = seed;
    const RuleBook jittery({{"default", *levels::Ladder::from_list(delays, 0.5)}}, {});
    return replay(log, jittery, options).deliveries;
  };
  for (int i = 0; i < 5; ++i) fails(0s, 5min);
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST_F(ReplayTest, EndsWhereItIsTold) {
  options.until = kMonday + 1min;
  fails(0s, {});
  ReplayTotals totals = run();
  EXPECT_EQ(totals.waiting, 1);
  EXPECT_THAT(totals.deliveries, SizeIs(1));

  options.until.reset();
  FailureRule snoozes{"shop[1]", {}, {}, {}};
  snoozes.then.kind = RuleAction::Kind::snooze;
  snoozes.then.snooze = 1s;
  rules = {snoozes};
  options.most_deliveries = 1000;
  totals = run();
  EXPECT_TRUE(totals.cut);
  EXPECT_EQ(totals.waiting, 1);
  EXPECT_THAT(totals.deliveries, SizeIs(1000));
}

// What a rule sends to another queue meets the gates of that queue.
TEST_F(ReplayTest, MovesToAnotherQueue) {
  FailureRule moves{"shop[1]", {}, {}, {}};
  moves.then.to = "slow";
  QueueRules orders, slow;
  orders.rules = "shop";
  slow.gate.rate = 1;
  const RuleBook both({{"default", *levels::Ladder::from_list(delays)}}, {{"orders", orders}, {"slow", slow}},
                      {}, {}, {}, {{"shop", std::make_shared<const FailureRules>(std::vector{moves})}});
  for (int i = 0; i < 10; ++i) fails(0s, 5s);
  const ReplayTotals totals = replay(log, both, options);
  EXPECT_EQ(totals.succeeded, 10);
  EXPECT_GT(totals.deliveries.back() - totals.deliveries.front(), 8500ms);
}

}  // namespace
}  // namespace rung::api
