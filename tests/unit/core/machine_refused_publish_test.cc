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
  const Decision d = decide(task, evicted(3, copy.copy_number), rules(), at());
  EXPECT_EQ(d.verdict, Verdict::stale) << d.reason;
  EXPECT_EQ(d.reason, kRefusedPublish);
  EXPECT_EQ(d.task, task);
}

TEST(RefusedPublish, TheDeadLetterBeforeTheNackWaitsForIt) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  for (const bool claim_stands : {true, false}) {  // false: the claimer has died
    Circumstances c = at();
    c.claim_stands = claim_stands;
    const Decision d = decide(copy, evicted(3, copy.copy_number), rules(), c);
    EXPECT_EQ(d.verdict, Verdict::refused);
    EXPECT_EQ(d.reason, kBeingPublished) << "asked again until the publish is answered";
  }
}

TEST(RefusedPublish, AfterACrashItIsForTheCopyThatTheNextOwnerReplaces) {
  const Task lost = claimed_copy(task_in(State::scheduled, kNow));  // nacked, and nobody heard it
  const Decision again =
      decide(lost, event::Claim{.again = true}, rules(), at(kNow + minutes(1), kEpoch + 1));
  ASSERT_TRUE(again.claimed_again) << again.reason;
  EXPECT_EQ(again.task.attempt, lost.attempt);
  EXPECT_EQ(decide(again.task, evicted(3, lost.copy_number), rules(), at()).reason, kRefusedPublish);
  const Task there = confirmed_copy(again.task);
  EXPECT_EQ(decide(there, evicted(3, lost.copy_number), rules(), at()).reason, kRefusedPublish);
}

TEST(RefusedPublish, OneThatComesAfterALaterPublishOfTheSameAttemptChangesNothing) {
  const Task first = claimed_copy(task_in(State::scheduled, kNow));
  const Task second = claimed_copy(refused_by_queue(first));
  EXPECT_EQ(second.attempt, first.attempt);
  EXPECT_NE(second.copy_number, first.copy_number);
  const Task there = confirmed_copy(second);
  const Task presumed = decide(there, event::SilenceOver{}, rules(), at(there.next_at.value())).task;
  ASSERT_EQ(presumed.state, State::succeeded);
  for (const Task& task : {second, there, presumed})
    EXPECT_EQ(decide(task, evicted(3, first.copy_number), rules(), at()).reason, kRefusedPublish)
        << to_word(task.state);
  EXPECT_EQ(decide(there, evicted(3, first.copy_number), rules(), at()).verdict, Verdict::stale);
  EXPECT_EQ(decide(presumed, evicted(3, second.copy_number), rules(), at()).verdict, Verdict::applied)
      << "the queue evicted the only copy: no consumer has had it";
}

// A silence that is held open, and an operator by SQL, raise the row's version as a claim does.
TEST(RefusedPublish, OtherChangesOfTheRowMakeAnEvictedMessageNoRefusedCopy) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  Task changed = copy;
  ++changed.version;
  EXPECT_EQ(decide(changed, evicted(3, copy.copy_number), rules(), at()).reason, kBeingPublished);
  const Task there = confirmed_copy(changed);
  EXPECT_EQ(decide(there, evicted(3, copy.copy_number), rules(), at()).verdict, Verdict::applied);
  event::SilenceOver over;
  over.held = "the queue is not attached";
  const Task held = decide(there, over, rules(), at(there.next_at.value())).task;
  ASSERT_TRUE(is_silence_held(held));
  EXPECT_EQ(decide(held, evicted(3, copy.copy_number), rules(), at()).verdict, Verdict::applied);
}

// Nothing may wait for the answer to a copy that the row does not count as current: if a full queue evicted
// that one, its dead letter would be taken for a refused copy's, and the message be lost.
TEST(RefusedPublish, AFormerOwnersLateConfirmDoesNotReplaceARefusedCopy) {
  const Task first = claimed_copy(task_in(State::scheduled, kNow));
  Circumstances taken_over = at(kNow + minutes(1), kEpoch + 1);
  taken_over.node = kOther;
  const Task second = decide(first, event::Claim{.again = true}, rules(), taken_over).task;
  const Task refused =
      decide(second, event::Deferred{second.attempt, seconds(5), "nacked", true}, rules(), taken_over).task;
  ASSERT_EQ(refused.epoch, 0U);
  const Task after = decide(refused, event::Confirmed{first.attempt, kNow, kEpoch}, rules(), at()).task;
  EXPECT_EQ(after.state, State::publishing) << "it is published once more";
  EXPECT_EQ(decide(after, evicted(3, first.copy_number), rules(), at()).reason, kRefusedPublish)
      << "the next copy decides";
}

TEST(RefusedPublish, ACopyOfAnOlderReleaseThatDoesNotNumberItsClaimsIsAFailure) {
  Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const std::uint32_t publish = copy.version;
  copy.copy_number = 0;
  EXPECT_EQ(decide(copy, evicted(3, publish), rules(), at()).reason, kBeingPublished);
  EXPECT_EQ(decide(confirmed_copy(copy), evicted(3, publish), rules(), at()).verdict, Verdict::applied);
}

// The queue had it, and dropped its oldest message: the only copy is at hand.
TEST(RefusedPublish, AMessageThatTheQueueEvictedIsAFailure) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const Decision d = decide(confirmed_copy(copy), evicted(3, copy.copy_number), rules(), at());
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 3);
}

TEST(RefusedPublish, AFailureByAConsumerOrWithoutTheTokenIsNone) {
  const Task copy = claimed_copy(task_in(State::scheduled, kNow));
  const Task task = refused_by_queue(copy);
  event::Failed by_consumer = evicted(3, copy.copy_number);
  by_consumer.unseen = false;
  EXPECT_EQ(decide(task, by_consumer, rules(), at()).verdict, Verdict::applied);
  event::Failed forged = evicted(3, copy.copy_number);
  forged.proven = false;
  EXPECT_EQ(decide(task, forged, rules(), at()).verdict, Verdict::refused);
  EXPECT_NE(decide(task, forged, rules(), at()).reason, kRefusedPublish);
}

}  // namespace
}  // namespace rung
