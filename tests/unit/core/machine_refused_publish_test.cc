// Dead letters of a full queue: of a publish that it refused (x-overflow reject-publish-dlx answers with a
// nack and dead-letters the message), and of a message that it had accepted and evicted.
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

event::Failed evicted(int attempt, std::uint32_t publish) {
  event::Failed e = failed(attempt, {}, "dead-lettered: maxlen (queue orders)");
  e.proven = e.unseen = true;
  e.queue = "orders";
  e.publish = publish;
  return e;
}

// The claim of the task's next attempt, as this instance makes it.
Task claimed_copy(const Task& task) {
  const Decision d = decide(task, event::Claim{}, rules(), at(task.next_at.value()));
  EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
  return d.task;
}
Task refused_by_queue(const Task& task) {
  const Decision d = decide(task, event::Deferred{task.attempt, seconds(5), "nacked"}, rules(), at());
  EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
  return d.task;
}
Task confirmed_copy(const Task& task) {
  const Decision d = decide(task, event::Confirmed{task.attempt, kNow}, rules(), at());
  EXPECT_EQ(d.task.state, State::awaiting);
  return d.task;
}

TEST(RefusedPublish, TheDeadLetterAfterTheNackChangesNothing) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const Task task = refused_by_queue(copy);
  ASSERT_EQ(task.attempt, 2) << "the attempt was taken back";
  const Decision d = decide(task, evicted(3, copy.version), rules(), at());
  EXPECT_EQ(d.verdict, Verdict::stale) << d.reason;
  EXPECT_EQ(d.reason, kRefusedPublish);
  EXPECT_EQ(d.task, task);
}

TEST(RefusedPublish, TheDeadLetterBeforeTheNackWaitsForIt) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  for (const bool claim_stands : {true, false}) {  // false: the claimer has died
    Circumstances c = at();
    c.claim_stands = claim_stands;
    const Decision d = decide(copy, evicted(3, copy.version), rules(), c);
    EXPECT_EQ(d.verdict, Verdict::refused);
    EXPECT_EQ(d.reason, kBeingPublished) << "asked again until the publish is answered";
  }
}

TEST(RefusedPublish, AfterACrashItIsForTheCopyThatTheNextOwnerReplaces) {
  const Task lost = claimed_copy(task_in(State::scheduled, kNow));  // nacked, and nobody heard it
  const Decision again = decide(lost, event::Claim{}, rules(), at(kNow + minutes(1), kEpoch + 1));
  ASSERT_TRUE(again.claimed_again) << again.reason;
  EXPECT_EQ(again.task.attempt, lost.attempt);
  EXPECT_EQ(decide(again.task, evicted(3, lost.version), rules(), at()).reason, kRefusedPublish);
  const Task there = confirmed_copy(again.task);
  EXPECT_EQ(decide(there, evicted(3, lost.version), rules(), at()).reason, kRefusedPublish);
}

TEST(RefusedPublish, OneThatComesAfterALaterPublishOfTheSameAttemptWasConfirmedChangesNothing) {
  const Task first = claimed_copy(task_in(State::scheduled, kNow));
  Task waiting = refused_by_queue(first);
  const Task second = claimed_copy(waiting);
  EXPECT_EQ(second.attempt, first.attempt);
  EXPECT_NE(second.version, first.version);
  EXPECT_EQ(decide(second, evicted(3, first.version), rules(), at()).reason, kRefusedPublish);
  const Decision d = decide(confirmed_copy(second), evicted(3, first.version), rules(), at());
  EXPECT_EQ(d.verdict, Verdict::stale);
  EXPECT_EQ(d.reason, kRefusedPublish);
}

// The queue had it, and dropped its oldest message: the only copy is at hand.
TEST(RefusedPublish, AMessageThatTheQueueEvictedIsAFailure) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const Decision d = decide(confirmed_copy(copy), evicted(3, copy.version), rules(), at());
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
}

TEST(RefusedPublish, AFailureByAConsumerOrWithoutTheTokenIsNone) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const Task task = refused_by_queue(copy);
  event::Failed by_consumer = evicted(3, copy.version);
  by_consumer.unseen = false;
  EXPECT_EQ(decide(task, by_consumer, rules(), at()).reason, kRowBehind);
  event::Failed forged = evicted(3, copy.version);
  forged.proven = false;
  EXPECT_EQ(decide(task, forged, rules(), at()).verdict, Verdict::refused);
  EXPECT_NE(decide(task, forged, rules(), at()).reason, kRefusedPublish);
}

}  // namespace
}  // namespace rung
