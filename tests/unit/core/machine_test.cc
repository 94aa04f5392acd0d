// The life of a task, arrow by arrow, with what each leaves behind: how it begins, claims, the broker's
// answers, how it ends. Failures: machine_failed_test.cc. People: machine_people_test.cc. The whole table:
// machine_table_test.cc.
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

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

TEST(Claim, AgainKeepsTheAttemptsNumber) {
  Task t = task_in(State::publishing, kNow - seconds(3));
  for (const std::uint64_t epoch : {kEpoch, kEpoch + 1, kEpoch + 9}) {
    const Decision d = decide(t, event::Claim{.again = true}, rules(), at(kNow, epoch));
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

// ---- successes and silence

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

// ---- claims that only the attempt records until the confirm, and claims of what another owner claimed

TEST(Claim, IsShortIfTheAttemptTellsAllOfIt) {
  const Task t = task_in(State::scheduled, kNow - seconds(3));
  const Decision d = decide(t, event::Claim{}, rules(), at());
  EXPECT_TRUE(d.short_claim);
  EXPECT_TRUE(is_short_claim(t, *d.attempt));
  EXPECT_TRUE(d.task == with_short_claim(t, d.attempt->epoch, d.attempt->node));
  EXPECT_FALSE(is_short_claim(d.task, *d.attempt));
  for (const event::Claim& more : {event::Claim{Ms{0}, Ms{1}}, event::Claim{Ms{0}, Ms{0}, 5}})
    EXPECT_FALSE(decide(t, more, rules(), at()).short_claim);
}

// Its former owner may still publish it.
TEST(Claim, OfWhatAnotherOwnerClaimedWaits) {
  const Task short_one = with_short_claim(task_in(State::scheduled, kNow - seconds(3)), kEpoch, kUs);
  for (const Task& t : {short_one, task_in(State::publishing, kNow - seconds(3))}) {
    EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, kEpoch + 1)).verdict, Verdict::stale);
    EXPECT_EQ(decide(t, event::Claim{.again = true}, rules(), at(kNow, kEpoch + 1)).verdict,
              Verdict::applied);
    EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, kEpoch)).verdict, Verdict::applied) << "ours";
  }
  Task refused = task_in(State::publishing, kNow - seconds(3));
  refused.epoch = 0;
  EXPECT_EQ(decide(refused, event::Claim{}, rules(), at(kNow, kEpoch + 1)).verdict, Verdict::applied);
}

}  // namespace
}  // namespace rung
