// A word on a delivery that the task's row knows nothing of: it was read where the last commits are not, or a
// database without them was made the primary.
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

// task_in(): attempt 2 at level 2 of 3. The delivery's token is good.
event::Failed of_attempt(int attempt, std::optional<int> level = {}) {
  event::Failed e = failed(attempt);
  e.proven = true;
  e.level = level;
  return e;
}

TEST(RowBehind, CountsAsThatAttemptAndClimbsOn) {
  Task lost = task_in(State::scheduled);  // the claim of attempt 3 and all that came after it
  const Decision d = decide(lost, of_attempt(3, 2), rules(), at());
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(d.task.level, 3);
  EXPECT_EQ(d.task.next_at, kNow + minutes(1));
  EXPECT_EQ(d.attempt->attempt, 3);
  EXPECT_EQ(d.attempt->level, 2);
  EXPECT_EQ(d.attempt->outcome, Outcome::failed);
  EXPECT_EQ(d.attempt->error,
            "timeout [the row was behind: it had attempt 2 and said scheduled when attempt 3 was answered]");
  EXPECT_NE(d.reason, "") << "somebody must be told";
  EXPECT_FALSE(d.overtaken) << "how attempt 2 ended stands there";
  expect_sound(d.task);
  // The same failure again, and that of an earlier attempt, are late.
  EXPECT_EQ(decide(d.task, of_attempt(3, 2), rules(), at()).verdict, Verdict::stale);
  EXPECT_EQ(decide(d.task, of_attempt(2), rules(), at()).verdict, Verdict::stale);
}

TEST(RowBehind, TheAttemptThatItTookForTheCurrentOneMustHaveFailed) {
  for (const Task& lost : {task_in(State::awaiting), presumed_task(), task_in(State::publishing)}) {
    const Decision d = decide(lost, of_attempt(3, 3), rules(), at());
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_EQ(d.task.state, State::parked) << "the third level was the last one";
    ASSERT_TRUE(d.overtaken) << to_word(lost.state);
    EXPECT_EQ(d.overtaken->attempt, 2);
    EXPECT_EQ(d.overtaken->level, 2);
    EXPECT_EQ(d.overtaken->outcome, Outcome::failed);
    expect_sound(d.task);
  }
}

TEST(RowBehind, TheLevelIsTheDeliverysOrFollowsFromTheAttempt) {
  Task fresh = task_in(State::scheduled);
  fresh.attempt = 0;
  fresh.level = 1;
  const auto next_level = [](const Task& t, const event::Failed& e) {
    return decide(t, e, rules(), at()).task.level;
  };
  EXPECT_EQ(next_level(fresh, of_attempt(1)), 2);
  EXPECT_EQ(next_level(fresh, of_attempt(2)), 3);
  EXPECT_EQ(decide(fresh, of_attempt(3), rules(), at()).task.state, State::parked);
  EXPECT_EQ(next_level(fresh, of_attempt(3, 1)), 2) << "it was redriven between: from the first rung again";
  EXPECT_EQ(decide(fresh, of_attempt(1, 77), rules(), at()).task.state, State::parked);
  Task delay = fresh;
  delay.kind = Kind::delay;
  delay.level = 0;
  EXPECT_EQ(next_level(delay, of_attempt(1)), 1);
  Task redriven = task_in(State::parked);  // the redrive and what came after it
  redriven.attempt = 3;
  redriven.level = 3;
  const Decision d = decide(redriven, of_attempt(4, 1), rules(), at());
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 2);
  expect_sound(d.task);
}

TEST(RowBehind, ASuccessEndsIt) {
  for (const Task& lost : {task_in(State::scheduled), task_in(State::awaiting), task_in(State::parked)}) {
    const Decision d = decide(lost, event::Succeeded{3, "10.0.0.7", true}, rules(), at());
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_EQ(d.task.state, State::succeeded);
    EXPECT_EQ(d.task.finished_by, FinishedBy::reported);
    EXPECT_EQ(d.task.attempt, 3);
    EXPECT_EQ(d.attempt->attempt, 3);
    EXPECT_EQ(d.attempt->executor, "10.0.0.7");
    EXPECT_EQ(d.overtaken.has_value(), lost.state == State::awaiting);
    expect_sound(d.task);
  }
}

TEST(RowBehind, WithoutTheTokenItIsNoSuchAttempt) {
  event::Failed e = of_attempt(3);
  e.proven = false;
  EXPECT_EQ(decide(task_in(State::awaiting), e, rules(), at()).reason, "no such attempt: it had 2");
  EXPECT_EQ(decide(task_in(State::awaiting), event::Succeeded{3, "", false}, rules(), at()).reason,
            "no such attempt: it had 2");
}

TEST(RowBehind, FurtherThanOneClimbOfTheLadderIsForAPerson) {
  EXPECT_EQ(decide(task_in(State::awaiting), of_attempt(2 + 4, 1), rules(), at()).verdict, Verdict::applied);
  EXPECT_EQ(decide(task_in(State::awaiting), of_attempt(2 + 5, 1), rules(), at()).reason,
            "no such attempt: it had 2");
  Task long_one = task_in(State::awaiting);
  long_one.max_attempts = 7;
  EXPECT_EQ(decide(long_one, of_attempt(2 + 11, 1), rules(), at()).verdict, Verdict::applied);
  EXPECT_EQ(decide(long_one, of_attempt(2 + 12, 1), rules(), at()).verdict, Verdict::refused);
}

// A cancel would be answered, and the copy would go out after it.
TEST(RowBehind, WhereACopyMayStillLeaveItIsWaitedFor) {
  Circumstances c = at();
  c.claim_stands = true;
  EXPECT_EQ(decide(task_in(State::publishing, kNow - seconds(1)), of_attempt(3), rules(), c).reason,
            kBeingPublished);
}

}  // namespace
}  // namespace rung
