// The life of a task, arrow by arrow, with what each leaves behind. The whole table: machine_table_test.cc.
#include <limits>

#include "src/core/base/utf8.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

Task begun(const Directives& d = {}, const std::string& queue = "orders", double random = 0.0) {
  Task t;
  t.id = {4711};
  t.queue = queue;
  t.first_failed_at = t.created_at = kNow;
  t.last_error = "boom";
  begin(t, d, rules(), kNow, random);
  return t;
}

// Applies, writes history, says what became of it.
struct Life {
  Task task;
  History history;
  RuleBook book = rules();

  Decision happens(const Happening& what, EpochMs now, std::uint64_t epoch = kEpoch) {
    Decision d = decide(task, what, book, at(now, epoch));
    history.write(d);
    task = d.task;
    expect_sound(task);
    return d;
  }
};

// ---- how it begins

TEST(Begin, WaitsForTheFirstDelay) {
  const Task t = begun();
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.level, 1);
  EXPECT_EQ(t.levels, 3);
  EXPECT_EQ(t.attempt, 0);
  EXPECT_EQ(t.ladder, "default");
  EXPECT_FALSE(t.ladder_pinned);
  EXPECT_EQ(t.next_at, kNow + seconds(5));
  EXPECT_EQ(t.last_error, "boom");
  expect_sound(t);
}

TEST(Begin, JitterIsNeverEarlier) {
  EXPECT_EQ(begun({}, "shaky", 0.0).next_at, kNow + seconds(10));
  EXPECT_EQ(begun({}, "shaky", 0.5).next_at, kNow + Ms(12'500));
  for (double random = 0.0; random < 1.0; random += 0.01) {
    const Task t = begun({}, "shaky", random);
    EXPECT_GE(*t.next_at, kNow + seconds(10)) << random;
    EXPECT_LT(*t.next_at, kNow + seconds(15)) << random;
  }
}

TEST(Begin, RetryAfterReplacesTheDelayAndIsCappedByTheHighest) {
  Directives d;
  d.retry_after = seconds(42);
  EXPECT_EQ(begun(d).next_at, kNow + seconds(42));
  d.retry_after = hours(5);
  EXPECT_EQ(begun(d).next_at, kNow + minutes(1));
  d.retry_after = Ms(0);
  EXPECT_EQ(begun(d).next_at, kNow);
}

TEST(Begin, RetryNeverParksAtOnce) {
  Directives d;
  d.never = true;
  const Task t = begun(d);
  EXPECT_EQ(t.state, State::parked);
  EXPECT_EQ(t.last_error, "boom");
  EXPECT_FALSE(t.next_at);
  expect_sound(t);
  EXPECT_EQ(begun(d, "billed").next_at, kNow) << "the copy for rung.parked is owed";
}

TEST(Begin, WithoutAQueueItIsParked) {
  const Task t = begun({}, "");
  EXPECT_EQ(t.state, State::parked);
  expect_sound(t);
}

TEST(Begin, AnotherLadderByHeader) {
  Directives d;
  d.ladder = "slow";
  const Task t = begun(d);
  EXPECT_EQ(t.ladder, "slow");
  EXPECT_TRUE(t.ladder_pinned);
  EXPECT_EQ(t.levels, 2);
  EXPECT_EQ(t.next_at, kNow + minutes(10));
}

TEST(Begin, ALadderThatIsNotInTheConfigIsSaidAndTheQueuesServes) {
  Directives d;
  d.ladder = "nosuch";
  d.complaint = "retry-after is not understood";
  const Task t = begun(d);
  EXPECT_EQ(t.ladder, "default");
  EXPECT_FALSE(t.ladder_pinned);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_NE(t.last_error.find("boom"), std::string::npos);
  EXPECT_NE(t.last_error.find("nosuch"), std::string::npos);
  EXPECT_NE(t.last_error.find("retry-after is not understood"), std::string::npos);
}

TEST(Begin, ParkedWithTheReason) {
  Task t;
  t.queue = "billed";
  begin_parked(t, "nothing says where it came from\xFF", rules(), kNow);
  EXPECT_EQ(t.state, State::parked);
  EXPECT_EQ(t.last_error, "nothing says where it came from\xEF\xBF\xBD");
  EXPECT_EQ(t.levels, 3);
  EXPECT_EQ(t.next_at, kNow);
  expect_sound(t);
}

// ---- a claim

TEST(Claim, IsNeverEarly) {
  const Task t = task_in(State::scheduled, kNow);
  EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow - Ms(1))).verdict, Verdict::stale);
  const Decision d = decide(t, event::Claim{}, rules(), at(kNow));
  ASSERT_EQ(d.verdict, Verdict::applied);
  EXPECT_EQ(d.task.state, State::publishing);
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(d.task.next_at, kNow) << "stays the attempt's due time";
  EXPECT_EQ(d.task.epoch, kEpoch);
  EXPECT_EQ(d.task.node, kUs);
}

TEST(Claim, AheadByNoMoreThanItSays) {
  const Task t = task_in(State::scheduled, kNow);
  EXPECT_EQ(decide(t, event::Claim{Ms(100)}, rules(), at(kNow - Ms(101))).verdict, Verdict::stale);
  const Decision d = decide(t, event::Claim{Ms(100)}, rules(), at(kNow - Ms(100)));
  ASSERT_EQ(d.verdict, Verdict::applied);
  EXPECT_EQ(d.task.next_at, t.next_at) << "it is due when it was";
  EXPECT_EQ(d.attempt->due_at, *t.next_at);
}

TEST(Claim, WritesTheRowOfItsAttempt) {
  const Task t = task_in(State::scheduled, kNow - seconds(3));
  const Decision d = decide(t, event::Claim{}, rules(), at());
  ASSERT_TRUE(d.attempt);
  Attempt expected;
  expected.task = t.id;
  expected.attempt = 3;
  expected.level = 2;
  expected.due_at = kNow - seconds(3);
  expected.node = kUs;
  EXPECT_EQ(*d.attempt, expected);
}

TEST(Claim, AgainKeepsTheAttemptsNumber) {
  Task t = task_in(State::publishing, kNow - seconds(3));
  for (const std::uint64_t epoch : {kEpoch, kEpoch + 1, kEpoch + 9}) {
    const Decision d = decide(t, event::Claim{}, rules(), at(kNow, epoch));
    ASSERT_EQ(d.verdict, Verdict::applied);
    EXPECT_EQ(d.task.attempt, 2);
    EXPECT_EQ(d.task.epoch, epoch);
    EXPECT_EQ(d.attempt->attempt, 2);
    EXPECT_EQ(d.attempt->due_at, kNow - seconds(3));
    t = d.task;
  }
  EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, kEpoch)).verdict, Verdict::stale);
}

// Who claims it again may bring no number.
TEST(Claim, AgainStaysTheProbeThatItWas) {
  Task t = task_in(State::publishing);
  t.probe = 17;
  EXPECT_EQ(decide(t, event::Claim{}, rules(), at()).task.probe, 17);
  EXPECT_EQ(decide(t, event::Claim{Ms{0}, Ms{0}, 18}, rules(), at()).task.probe, 18);
  EXPECT_EQ(decide(t, event::Claim{Ms{0}, Ms{0}, 1}, rules(), at()).task.probe, 1);
}

TEST(Claim, AnOldEpochOfAnotherShardDoesNotHinder) {
  // A failure taken in elsewhere moved it: its epoch is of the shard it was in, and says nothing in the new
  // one.
  Task t = task_in(State::scheduled, kNow);
  t.epoch = 1000;
  EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, 2)).verdict, Verdict::applied);
}

// ---- the broker's answer

TEST(Confirmed, StartsTheSilence) {
  const Decision d =
      decide(task_in(State::publishing, kNow), event::Confirmed{2, kNow - Ms(4)}, rules(), at());
  EXPECT_EQ(d.task.state, State::awaiting);
  EXPECT_EQ(d.task.next_at, kNow + minutes(10));
  EXPECT_EQ(d.attempt->published_at, kNow - Ms(4));
  EXPECT_EQ(d.attempt->outcome, Outcome::pending);
  EXPECT_FALSE(d.attempt->outcome_at);
}

TEST(Confirmed, TwiceDoesNotBeginTheSilenceAnew) {
  const Task t = task_in(State::awaiting);
  const Decision d = decide(t, event::Confirmed{2, kNow}, rules(), at());
  EXPECT_EQ(d.task, t);
}

TEST(Confirmed, AfterAQuickFailureFillsThePublishingTimeOnly) {
  Life life{task_in(State::scheduled, kNow), {}};
  life.happens(event::Claim{}, kNow);
  const Attempt claimed = life.history.row(3);
  ASSERT_EQ(life.happens(failed(3), kNow + Ms(2)).verdict, Verdict::applied);
  const Task after_failure = life.task;
  life.happens(event::Confirmed{3, kNow + Ms(1)}, kNow + Ms(5));
  EXPECT_EQ(life.task, after_failure);
  const Attempt& row = life.history.row(3);
  EXPECT_EQ(row.published_at, kNow + Ms(1));
  EXPECT_EQ(row.outcome, Outcome::failed);
  EXPECT_EQ(row.outcome_at, kNow + Ms(2));
  EXPECT_EQ(row.error, "timeout");
  EXPECT_EQ(row.level, claimed.level);
  EXPECT_EQ(row.due_at, claimed.due_at);
  EXPECT_EQ(row.node, kUs);
}

TEST(Confirmed, ARowThatWasLostIsNotWrittenAsEarly) {
  // The task moved on: next_at is of the coming attempt, or the end of silence.
  for (const State state : {State::scheduled, State::awaiting, State::parked, State::cancelled}) {
    for (const int attempt : {1, 2}) {
      const Decision d =
          decide(task_in(state, kNow + hours(1)), event::Confirmed{attempt, kNow}, rules(), at());
      ASSERT_TRUE(d.attempt);
      EXPECT_LE(d.attempt->due_at, kNow);
      EXPECT_EQ(d.attempt->published_at, kNow);
    }
  }
}

TEST(Returned, IsAFailureAndSaysSo) {
  Task t = task_in(State::publishing, kNow);
  const Decision d = decide(t, event::Returned{2, kNow - Ms(1), "NO_ROUTE"}, rules(), at());
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
  EXPECT_EQ(d.task.attempt, 2);
  EXPECT_EQ(d.task.last_error, "NO_ROUTE");
  EXPECT_EQ(d.task.next_at, kNow + minutes(1));
  EXPECT_EQ(d.attempt->outcome, Outcome::returned);
  EXPECT_EQ(d.attempt->published_at, kNow - Ms(1));
  EXPECT_EQ(d.attempt->outcome_at, kNow);
  EXPECT_EQ(d.attempt->due_at, kNow);
  EXPECT_EQ(d.attempt->level, 2);
  EXPECT_EQ(d.attempt->error, "NO_ROUTE");
}

TEST(Deferred, CostsNoAttempt) {
  Life life{task_in(State::scheduled, kNow), {}};
  life.happens(event::Claim{}, kNow);
  ASSERT_TRUE(life.history.has(3));
  const Decision d = life.happens(event::Deferred{3, seconds(7), "queue full"}, kNow);
  EXPECT_TRUE(d.drop_attempt);
  EXPECT_FALSE(life.history.has(3));
  EXPECT_EQ(life.task.state, State::scheduled);
  EXPECT_EQ(life.task.attempt, 2);
  EXPECT_EQ(life.task.level, 2);
  EXPECT_EQ(life.task.next_at, kNow + seconds(7));
  EXPECT_EQ(life.task.last_error, "queue full");
  life.happens(event::Claim{}, kNow + seconds(7));
  EXPECT_EQ(life.task.attempt, 3);
  EXPECT_EQ(life.history.row(3).due_at, kNow + seconds(7));
}

// The first publish had no answer, and the second was refused. Taken back, the number would be given out
// twice, and the word of the first copy's consumer would come from an attempt that the row does not know.
TEST(Deferred, KeepsTheNumberOfAnAttemptWhoseCopyMayBeOut) {
  Life life{task_in(State::scheduled, kNow), {}};
  EXPECT_FALSE(life.happens(event::Claim{}, kNow).claimed_again);
  ASSERT_TRUE(life.happens(event::Claim{}, kNow).claimed_again);
  const Decision d = life.happens(event::Deferred{3, seconds(5), "queue full", true}, kNow);
  EXPECT_FALSE(d.drop_attempt);
  EXPECT_TRUE(life.history.has(3));
  EXPECT_EQ(life.task.state, State::publishing);
  EXPECT_EQ(life.task.attempt, 3);
  EXPECT_EQ(life.task.next_at, kNow + seconds(5));
  Life again = life;
  EXPECT_TRUE(again.happens(event::Claim{}, kNow + seconds(5)).claimed_again);
  EXPECT_EQ(again.task.attempt, 3);
  life.happens(failed(3), kNow + seconds(1));
  EXPECT_EQ(life.task.state, State::scheduled) << "the word of the copy counts at once";
  EXPECT_EQ(life.task.level, 3);
}

TEST(Deferred, ADeposedOwnerTakesNothingBack) {
  Task t = task_in(State::publishing, kNow);
  t.node = kOther;  // it claimed the same attempt again, and its publish is on the way
  for (const std::uint64_t epoch : {std::uint64_t{0}, kEpoch}) {
    EXPECT_EQ(decide(t, event::Deferred{2, Ms(1), ""}, rules(), at(kNow, epoch)).verdict, Verdict::stale);
    EXPECT_EQ(decide(t, event::Returned{2, kNow, ""}, rules(), at(kNow, epoch)).verdict, Verdict::stale);
  }
}

// ---- failures

TEST(Failed, ClimbsToTheNextLevel) {
  Circumstances c = at();
  c.home_shard = 40;
  const Decision d = decide(task_in(State::awaiting), failed(2), rules(), c);
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
  EXPECT_EQ(d.task.next_at, kNow + minutes(1));
  EXPECT_EQ(d.task.last_error, "timeout");
  EXPECT_EQ(d.task.error_type, "Timeout");
  EXPECT_EQ(d.task.shard, 40) << "to a shard of whoever took the failure in";
  EXPECT_EQ(d.attempt->attempt, 2);
  EXPECT_EQ(d.attempt->level, 2) << "the level of the attempt, not of the next";
  EXPECT_EQ(d.attempt->outcome, Outcome::failed);
  EXPECT_EQ(d.attempt->outcome_at, kNow);
  EXPECT_EQ(d.attempt->error, "timeout");
}

TEST(Failed, WithoutAHomeItStaysInItsShard) {
  EXPECT_EQ(decide(task_in(State::awaiting), failed(2), rules(), at()).task.shard, 11);
}

TEST(Failed, JitterAppliesOnEveryRung) {
  Task t = task_in(State::awaiting);
  t.queue = "shaky";
  t.ladder = "shaky";
  t.level = 1;
  Circumstances c = at();
  c.random = 0.5;
  EXPECT_EQ(decide(t, failed(2), rules(), c).task.next_at, kNow + seconds(25));
}

TEST(Failed, RetryAfterOnTheWayUp) {
  Directives d;
  d.retry_after = seconds(2);
  EXPECT_EQ(decide(task_in(State::awaiting), failed(2, d), rules(), at()).task.next_at, kNow + seconds(2));
  d.retry_after = hours(9);
  EXPECT_EQ(decide(task_in(State::awaiting), failed(2, d), rules(), at()).task.next_at, kNow + minutes(1));
  Task spent = task_in(State::awaiting);
  spent.level = 3;
  EXPECT_EQ(decide(spent, failed(2, d), rules(), at()).task.state, State::parked)
      << "a wish for later is no wish for more";
}

TEST(Failed, RetryNeverParksInTheMiddle) {
  Directives d;
  d.never = true;
  const Decision done = decide(task_in(State::awaiting), failed(2, d), rules(), at());
  EXPECT_EQ(done.task.state, State::parked);
  EXPECT_EQ(done.task.finished_at, kNow);
  EXPECT_EQ(done.task.last_error, "timeout");
  EXPECT_EQ(done.attempt->outcome, Outcome::failed);
}

TEST(Failed, RetryMaxAttemptsCountsDeliveries) {
  Directives d;
  d.max_attempts = 2;
  EXPECT_EQ(decide(task_in(State::awaiting), failed(2, d), rules(), at()).task.state, State::parked);
  d.max_attempts = 3;
  const Decision more = decide(task_in(State::awaiting), failed(2, d), rules(), at());
  EXPECT_EQ(more.task.state, State::scheduled);
  EXPECT_EQ(more.task.max_attempts, 3) << "it is remembered";
  Task t = more.task;
  t.state = State::awaiting;
  t.attempt = 3;
  EXPECT_EQ(decide(t, failed(3), rules(), at()).task.state, State::parked);
}

TEST(Failed, AnErrorText) {
  const std::string huge(kErrorBytes + 500, 'e');
  Directives d;
  d.ladder = "nosuch";
  const Decision done = decide(task_in(State::awaiting), failed(2, d, huge), rules(), at());
  EXPECT_LE(done.task.last_error.size(), kErrorBytes);
  EXPECT_NE(done.task.last_error.find("nosuch"), std::string::npos) << "the complaint is not what is cut";
  EXPECT_EQ(done.attempt->error, huge.substr(0, kErrorBytes)) << "history has the consumer's words only";
  const Decision bad = decide(task_in(State::awaiting), failed(2, {}, "\xFF\x00z"), rules(), at());
  EXPECT_TRUE(is_utf8(bad.task.last_error));
}

// The same to the byte, and somebody published it under a routing key of its own: it is not in the row.
TEST(Failed, UnderAnotherRoutingKeyIsNoRepeat) {
  Task t = task_in(State::succeeded);
  t.routing_key = "order.paid";
  t.digest = std::string(16, 'd');
  event::Failed e = failed(2);
  auto received = std::make_shared<ReceivedMessage>();
  received->digest = t.digest;
  received->message = std::make_shared<const Message>();
  received->exchange = "shop";
  received->routing_key = "order.paid";
  e.received = received;
  EXPECT_EQ(decide(t, e, rules(), at()).verdict, Verdict::stale);
  auto rerouted = std::make_shared<ReceivedMessage>(*received);
  rerouted->routing_key = "order.shipped";
  e.received = rerouted;
  const Decision d = decide(t, e, rules(), at());
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.reason, kAnotherMessage);
}

TEST(Failed, AfterPresumedSuccessOpensTheSameRowAgain) {
  const Decision d = decide(presumed_task(), failed(2), rules(), at());
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
  EXPECT_FALSE(d.task.finished_at);
  EXPECT_EQ(d.task.finished_by, FinishedBy::nobody);
  EXPECT_EQ(d.attempt->outcome, Outcome::failed);
  EXPECT_EQ(d.attempt->level, 2);
}

TEST(Failed, AfterReportedSuccessDoesNot) {
  const Decision d = decide(task_in(State::succeeded), failed(2), rules(), at());
  EXPECT_EQ(d.verdict, Verdict::stale);
}

TEST(Failed, WithAnothersRetryIdIsRefused) {
  Task t = task_in(State::awaiting);
  t.message_id = "order-4711";
  event::Failed e = failed(2);
  e.queue = "invoices";
  Decision d = decide(t, e, rules(), at());
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.reason, kAnothersTask);
  e.queue = "orders";
  e.message_id = "order-4712";
  EXPECT_EQ(decide(t, e, rules(), at()).reason, kAnothersTask);
  for (const auto* said : {"order-4711", ""}) {  // who says nothing is believed
    e.message_id = said;
    EXPECT_EQ(decide(t, e, rules(), at()).verdict, Verdict::applied);
  }
  e.queue.clear();
  EXPECT_EQ(decide(t, e, rules(), at()).verdict, Verdict::applied);
}

TEST(Failed, TwiceCountsOnce) {
  Life life{task_in(State::awaiting), {}};
  EXPECT_EQ(life.happens(failed(2), kNow).verdict, Verdict::applied);
  EXPECT_EQ(life.happens(failed(2), kNow).verdict, Verdict::stale);
  life.happens(event::Claim{}, *life.task.next_at);
  EXPECT_EQ(life.happens(failed(2), *life.task.next_at).verdict, Verdict::stale);
}

// ---- ladders

TEST(Ladder, ByHeaderAtAFailureIsPinnedAndStays) {
  Directives d;
  d.ladder = "slow";
  Task t = task_in(State::awaiting);
  t.level = 1;
  Decision done = decide(t, failed(2, d), rules(), at());
  EXPECT_EQ(done.task.ladder, "slow");
  EXPECT_TRUE(done.task.ladder_pinned);
  EXPECT_EQ(done.task.levels, 2);
  EXPECT_EQ(done.task.level, 2) << "it keeps its level";
  EXPECT_EQ(done.task.next_at, kNow + hours(1));
}

TEST(Ladder, TheNameThatWePutOnTheMessageIsNoWish) {
  Directives d;
  d.ladder = "default";
  EXPECT_FALSE(decide(task_in(State::awaiting), failed(2, d), rules(), at()).task.ladder_pinned);
}

TEST(Ladder, PinnedOutlivesAChangeOfTheQueuesNotOfItsOwn) {
  Task t = task_in(State::awaiting);
  t.level = 1;
  t.ladder = "slow";
  t.ladder_pinned = true;
  EXPECT_EQ(decide(t, failed(2), rules(), at()).task.next_at, kNow + hours(1));
  // A reload took it away: what the queue's owner says today.
  t.ladder = "gone";
  const Decision d = decide(t, failed(2), rules(), at());
  EXPECT_EQ(d.task.ladder, "default");
  EXPECT_FALSE(d.task.ladder_pinned);
  EXPECT_EQ(d.task.next_at, kNow + seconds(30));
}

TEST(Ladder, ReloadedKeepsTheLevelAndTheNewDelaysHoldFromTheNextStep) {
  const RuleBook longer = rules_with_default(ladder({seconds(1), seconds(2), hours(3), hours(4)}));
  // Scheduled already: it waits for what it was told.
  const Task waiting = task_in(State::scheduled, kNow + seconds(20));
  EXPECT_EQ(decide(waiting, event::Claim{}, longer, at(kNow + seconds(19))).verdict, Verdict::stale);
  const Decision claimed = decide(waiting, event::Claim{}, longer, at(kNow + seconds(20)));
  EXPECT_EQ(claimed.task.level, 2);
  EXPECT_EQ(claimed.task.levels, 3);
  const Decision next = decide(claimed.task, failed(3), longer, at());
  EXPECT_EQ(next.task.level, 3);
  EXPECT_EQ(next.task.levels, 4);
  EXPECT_EQ(next.task.next_at, kNow + hours(3));
}

TEST(Ladder, ShortenedByAReloadParks) {
  const Decision d =
      decide(task_in(State::awaiting), failed(2), rules_with_default(ladder({seconds(1)})), at());
  EXPECT_EQ(d.task.state, State::parked);
  EXPECT_EQ(d.task.levels, 1);
  EXPECT_EQ(d.task.last_error, "timeout");
}

TEST(Ladder, TheQueueNamesAnother) {
  Task t = task_in(State::awaiting);
  t.queue = "shaky";  // its ladder was `default` when the task was scheduled
  t.level = 1;
  const Decision d = decide(t, failed(2), rules(), at());
  EXPECT_EQ(d.task.ladder, "shaky");
  EXPECT_EQ(d.task.next_at, kNow + seconds(20));
  EXPECT_EQ(d.task.levels, 2);
}

// ---- successes and silence

TEST(Succeeded, Reported) {
  const Decision d = decide(task_in(State::awaiting), event::Succeeded{2}, rules(), at());
  EXPECT_EQ(d.task.state, State::succeeded);
  EXPECT_EQ(d.task.finished_by, FinishedBy::reported);
  EXPECT_EQ(d.task.finished_at, kNow);
  EXPECT_EQ(d.attempt->outcome, Outcome::succeeded);
  EXPECT_EQ(d.attempt->outcome_at, kNow);
}

TEST(Succeeded, AfterPresumedIsReported) {
  const Decision d = decide(presumed_task(), event::Succeeded{2}, rules(), at());
  EXPECT_EQ(d.task.finished_by, FinishedBy::reported);
}

TEST(Succeeded, LateAfterTimedOut) {
  Life life{task_in(State::scheduled, kNow), {}};
  life.task.queue = "invoices";
  life.task.level = 1;
  life.happens(event::Claim{}, kNow);
  life.happens(event::Confirmed{3, kNow}, kNow);
  EXPECT_EQ(life.task.next_at, kNow + minutes(5));
  EXPECT_EQ(life.happens(event::SilenceOver{}, kNow + minutes(5) - Ms(1)).verdict, Verdict::stale);
  life.happens(event::SilenceOver{}, kNow + minutes(5));
  EXPECT_EQ(life.task.state, State::scheduled);
  EXPECT_EQ(life.task.level, 2);
  EXPECT_EQ(life.history.row(3).outcome, Outcome::timed_out);
  EXPECT_NE(life.history.row(3).error.find("5m"), std::string::npos);

  life.happens(event::Succeeded{3}, kNow + minutes(5) + Ms(1));
  EXPECT_EQ(life.task.state, State::succeeded);
  EXPECT_EQ(life.history.row(3).outcome, Outcome::succeeded);
  EXPECT_EQ(life.history.row(3).level, 1);
  EXPECT_EQ(life.history.row(3).due_at, kNow);
  EXPECT_EQ(life.happens(event::Claim{}, kNow + hours(1)).verdict, Verdict::stale) << "not published again";
}

TEST(Succeeded, OfAnOlderAttemptWhileALaterIsUnderWay) {
  Life life{task_in(State::publishing, kNow), {}};
  life.task.node = kOther;
  const Decision d = life.happens(event::Succeeded{1}, kNow);
  EXPECT_EQ(life.task.state, State::succeeded);
  EXPECT_EQ(d.attempt->attempt, 1);
  EXPECT_EQ(d.attempt->node, 0) << "whose it was, its row knows";
  life.happens(event::Confirmed{2, kNow}, kNow);
  EXPECT_EQ(life.task.state, State::succeeded);
}

TEST(Succeeded, FromTheParkingLotOwesNoCopyAnyMore) {
  Task t = task_in(State::parked);
  t.next_at = kNow;
  const Decision d = decide(t, event::Succeeded{2}, rules(), at());
  EXPECT_EQ(d.task.state, State::succeeded);
  EXPECT_FALSE(d.task.next_at);
}

TEST(Silence, MeansSuccessAndIsLabelled) {
  const Decision d = decide(task_in(State::awaiting, kNow), event::SilenceOver{}, rules(), at());
  EXPECT_EQ(d.task.state, State::succeeded);
  EXPECT_EQ(d.task.finished_by, FinishedBy::presumed);
  EXPECT_EQ(d.attempt->outcome, Outcome::succeeded);
}

// ---- the parking lot and people

TEST(Parked, OwesACopyWhereTheQueueSaysSo) {
  Task t = task_in(State::awaiting);
  t.queue = "billed";
  t.level = 3;
  const Decision parked = decide(t, failed(2), rules(), at());
  EXPECT_EQ(parked.task.state, State::parked);
  EXPECT_EQ(parked.task.next_at, kNow);
  const Decision sent = decide(parked.task, event::ParkedCopySent{}, rules(), at());
  EXPECT_EQ(sent.verdict, Verdict::applied);
  EXPECT_FALSE(sent.task.next_at);
  EXPECT_EQ(sent.task.finished_at, kNow);
  EXPECT_EQ(sent.task.version, parked.task.version) << "nobody sees a difference";
  EXPECT_EQ(decide(sent.task, event::ParkedCopySent{}, rules(), at()).verdict, Verdict::stale);
}

TEST(Redrive, FromTheFirstRungAndAttemptsCountOn) {
  Task t = task_in(State::parked);
  t.level = 3;
  t.attempt = 3;
  t.max_attempts = 3;
  const Decision d = decide(t, event::Redrive{}, rules(), at());
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 1);
  EXPECT_EQ(d.task.next_at, kNow);
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(d.task.max_attempts, 0) << "else its first failure would park it again";
  EXPECT_FALSE(d.task.finished_at);
  const Decision claimed = decide(d.task, event::Claim{}, rules(), at());
  EXPECT_EQ(claimed.task.attempt, 4);
  EXPECT_EQ(decide(claimed.task, failed(4), rules(), at()).task.level, 2);
}

TEST(Redrive, AScheduledOneIsDueNowAndKeepsItsLevel) {
  const Decision d = decide(task_in(State::scheduled), event::Redrive{}, rules(), at());
  EXPECT_EQ(d.task.next_at, kNow);
  EXPECT_EQ(d.task.level, 2);
}

TEST(Redrive, NotIntoAnErrorQueue) {
  const auto errors = std::make_shared<const ErrorQueues>(std::vector{ErrorQueue{.from = "*_error"}});
  const RuleBookPtr book = rules().with_error_queues(errors);
  Task parked = task_in(State::parked);
  for (const Target& target : {Target{"orders_error", "", ""}, Target{"", "", "orders_error"}}) {
    const Decision d = decide(parked, event::Redrive{target}, *book, at());
    EXPECT_EQ(d.verdict, Verdict::refused);
    EXPECT_NE(d.reason.find("'orders_error' is an error queue"), std::string::npos) << d.reason;
  }
  EXPECT_EQ(decide(parked, event::Redrive{{"orders", "", ""}}, *book, at()).verdict, Verdict::applied);
  parked.queue = "orders_error";  // the config named it later
  EXPECT_EQ(decide(parked, event::Redrive{}, *book, at()).verdict, Verdict::refused);
  EXPECT_EQ(decide(parked, event::Redrive{{"orders", "", ""}}, *book, at()).verdict, Verdict::applied);
}

TEST(Redrive, NotWithoutAQueue) {
  Task t = task_in(State::parked);
  t.queue.clear();
  EXPECT_EQ(decide(t, event::Redrive{}, rules(), at()).verdict, Verdict::refused);
}

TEST(Cancel, IsKept) {
  Life life{task_in(State::scheduled, kNow), {}};
  EXPECT_EQ(life.happens(event::Cancel{"not wanted"}, kNow).verdict, Verdict::applied);
  EXPECT_EQ(life.task.state, State::cancelled);
  EXPECT_EQ(life.task.last_error, "not wanted");
  for (const Happening& what : {Happening{event::Claim{}}, Happening{event::Redrive{}}, Happening{failed(0)},
                                Happening{event::Succeeded{0}}, Happening{event::Finish{false, ""}}}) {
    life.happens(what, kNow + hours(1));
    EXPECT_EQ(life.task.state, State::cancelled);
  }
}

TEST(Cancel, KeepsTheErrorWhereNoReasonIsGiven) {
  EXPECT_EQ(decide(task_in(State::scheduled), event::Cancel{""}, rules(), at()).task.last_error,
            "the error before");
}

// Claimed, and the lease of the claim is valid: whoever claimed it may still publish a copy. Were the attempt
// ended now, a cancel would be answered, and the copy would go out after it.
TEST(BeingPublished, NothingEndsTheAttemptBeforeTheBrokersAnswer) {
  const Happening ends[] = {failed(2), failed(0), event::Finish{false, "e"}, event::Finish{true, ""}};
  for (const int node : {kUs, kOther}) {
    for (const auto due : {kNow + Ms{40}, kNow - seconds(1)}) {
      Task held = task_in(State::publishing, due);
      held.node = node;
      Circumstances c = at(kNow, node == kUs ? kEpoch : 0);
      c.claim_stands = true;
      for (const Happening& what : ends) {
        const Decision d = decide(held, what, rules(), c);
        EXPECT_EQ(d.verdict, Verdict::refused) << name_of(what);
        EXPECT_EQ(d.reason, due > kNow ? kNotPublishedYet : kBeingPublished) << name_of(what);
        EXPECT_EQ(decide(d.task, event::Cancel{}, rules(), c).verdict, Verdict::refused);
        // Once that lease is over, nobody can publish it any more: a consumer's word counts at once.
        EXPECT_EQ(decide(held, what, rules(), at(kNow, 0)).verdict, Verdict::applied) << name_of(what);
      }
    }
  }
}

TEST(BeingPublished, WhoClaimedItMayStillSayThatItCannotBeSent) {
  Circumstances c = at();
  c.claim_stands = true;
  event::Failed unsendable = failed(2);
  unsendable.by_publisher = true;
  EXPECT_EQ(decide(task_in(State::publishing, kNow), unsendable, rules(), c).verdict, Verdict::applied);
}

// Two instances had a copy: the confirm of the first leaves the row to the second, whose copy may not have
// left.
TEST(BeingPublished, AFormerOwnersConfirmOnlyFillsTheHistory) {
  Task claimed = task_in(State::publishing, kNow);
  claimed.node = kOther;
  Circumstances c = at(kNow, 0);
  c.claim_stands = true;
  const Decision d = decide(claimed, event::Confirmed{2, kNow}, rules(), c);
  EXPECT_EQ(d.verdict, Verdict::applied);
  EXPECT_EQ(d.task.state, State::publishing);
  EXPECT_EQ(d.attempt->published_at, kNow);
}

// The heir's lease has expired as well, or it is this very instance, which has the shard again: its copy may
// not have left either.
TEST(BeingPublished, AConfirmOfAnOlderClaimOnlyFillsTheHistory) {
  Task claimed = task_in(State::publishing, kNow);
  claimed.epoch = 7;
  const Decision late = decide(claimed, event::Confirmed{2, kNow, 6}, rules(), at(kNow, 0));
  EXPECT_EQ(late.verdict, Verdict::applied);
  EXPECT_EQ(late.task.state, State::publishing);
  EXPECT_EQ(late.attempt->published_at, kNow);
  EXPECT_EQ(decide(claimed, event::Confirmed{2, kNow, 7}, rules(), at(kNow, 0)).task.state, State::awaiting);
}

TEST(BeingPublished, ALateSuccessOfAnEarlierAttemptStillEndsTheTask) {
  Circumstances c = at();
  c.claim_stands = true;
  const Decision d = decide(task_in(State::publishing, kNow), event::Succeeded{1}, rules(), c);
  EXPECT_EQ(d.task.state, State::succeeded);
  EXPECT_EQ(decide(d.task, event::Cancel{}, rules(), c).verdict, Verdict::refused);
}

TEST(Finish, ByHandAfterAFailureLeavesHistoryTrue) {
  Life life{task_in(State::awaiting), {}};
  life.happens(failed(2), kNow);
  const Attempt before = life.history.row(2);
  life.happens(event::Finish{true, ""}, kNow + Ms(1));
  EXPECT_EQ(life.task.state, State::succeeded);
  EXPECT_EQ(life.history.row(2), before);
}

TEST(Finish, AsFailedNeedsNoWords) {
  const Decision d = decide(task_in(State::awaiting), event::Finish{false, ""}, rules(), at());
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
  EXPECT_NE(d.task.last_error, "");
  EXPECT_EQ(
      decide(task_in(State::awaiting), event::Finish{false, "seen by Ann"}, rules(), at()).attempt->error,
      "seen by Ann");
}

// The whole climb of a message that nobody can handle.
TEST(Climb, ThreeRungsAndTheParkingLot) {
  Life life{begun(), {}};
  EpochMs now = kNow;
  const std::vector<Ms> delays = {seconds(5), seconds(30), minutes(1)};
  for (int n = 1; n <= 3; ++n) {
    ASSERT_EQ(life.task.state, State::scheduled);
    const EpochMs due = now + delays[static_cast<std::size_t>(n - 1)];
    EXPECT_EQ(life.task.next_at, due);
    now = due + Ms(3);
    life.happens(event::Claim{}, now);
    life.happens(event::Confirmed{n, now + Ms(1)}, now + Ms(1));
    now = now + seconds(2);
    life.happens(failed(n, {}, "error " + std::to_string(n)), now);
    const Attempt& row = life.history.row(n);
    EXPECT_EQ(row.level, n);
    EXPECT_EQ(row.due_at, due);
    EXPECT_EQ(row.published_at, due + Ms(4));
    EXPECT_EQ(row.outcome, Outcome::failed);
    EXPECT_EQ(row.outcome_at, now);
    EXPECT_EQ(row.error, "error " + std::to_string(n));
  }
  EXPECT_EQ(life.task.state, State::parked);
  EXPECT_EQ(life.task.last_error, "error 3");
  EXPECT_EQ(life.history.rows().size(), 3u);
}

}  // namespace
}  // namespace rung
