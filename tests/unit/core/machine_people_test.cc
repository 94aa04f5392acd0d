// The parking lot, and what people do with a task.
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

// ---- the parking lot and people

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

TEST(Cancel, IsKept) {
  Life life{task_in(State::scheduled, kNow), {}};
  EXPECT_EQ(life.happens(event::Cancel{}, kNow).verdict, Verdict::applied);
  EXPECT_EQ(life.task.state, State::cancelled);
  for (const Happening& what : {Happening{event::Claim{}}, Happening{event::Redrive{}}, Happening{failed(0)},
                                Happening{event::Succeeded{0}}, Happening{event::Finish{false, ""}}}) {
    life.happens(what, kNow + hours(1));
    EXPECT_EQ(life.task.state, State::cancelled);
  }
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
        EXPECT_EQ(d.reason, kBeingPublished) << name_of(what);
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

}  // namespace
}  // namespace rung
