// A copy of a parked message that somebody has moved, and that failed again.
#include <gtest/gtest.h>

#include "src/core/machine/by_hand.h"
#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

constexpr std::uint32_t kCopy = 12 | kParkedCopy;

event::Failed of_copy(std::uint32_t number = kCopy) {
  event::Failed e = failed(3);  // as the copy says: an attempt of its own
  e.proven = true;
  e.publish = number;
  e.queue = "orders";
  return e;
}

TEST(ParkedCopy, ItsFailureReopensTheParkedTaskOnce) {
  const Task task = task_in(State::parked);
  const event::Failed e = of_copy();
  const Decision d = decide(task, e, rules(), at());
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 1);
  EXPECT_EQ(d.task.next_at, kNow + seconds(5)) << "the first delay";
  EXPECT_EQ(d.task.last_error, "timeout");
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(counted_attempts(d.task), 0) << "limits count anew";
  ASSERT_TRUE(d.attempt);
  EXPECT_EQ(d.attempt->attempt, 3);
  EXPECT_EQ(d.attempt->outcome, Outcome::failed);
  expect_sound(d.task);
  EXPECT_EQ(audit_of({task.id, e}, task, d.task, kNow)->reason, kCameBack);
  // A repeat, also when the next attempt is out, or over.
  Task later = d.task;
  for (const State state : {State::scheduled, State::awaiting, State::parked, State::succeeded}) {
    later.state = state;
    later.attempt = 4;
    EXPECT_EQ(decide(later, e, rules(), at()).verdict, Verdict::stale) << to_word(state);
  }
  // Parked again, it was copied again.
  later.state = State::parked;
  EXPECT_EQ(decide(later, of_copy(20 | kParkedCopy), rules(), at()).task.attempt, 5);
}

TEST(ParkedCopy, OfATaskThatIsNotParkedItBecomesATaskOfItsOwn) {
  for (const State state : {State::scheduled, State::publishing, State::awaiting, State::succeeded,
                            State::cancelled, State::discarded}) {
    Task task = task_in(state);
    task.attempt = 5;
    EXPECT_EQ(decide(task, of_copy(), rules(), at()).reason, kGoneOn) << to_word(state);
  }
  event::Failed elsewhere = of_copy();
  elsewhere.queue = "invoices";
  EXPECT_EQ(decide(task_in(State::parked), elsewhere, rules(), at()).reason, kAnothersTask);
}

TEST(ParkedCopy, ARuleOrALadderOfNoneParksItAgain) {
  event::Failed e = of_copy();
  e.directives.never = true;
  const Decision d = decide(task_in(State::parked), e, rules(), at());
  EXPECT_EQ(d.task.state, State::parked);
  EXPECT_EQ(d.task.attempt, 3);
  expect_sound(d.task);
}

TEST(ParkedCopy, ItsSuccessEndsTheTask) {
  event::Succeeded e{3};
  e.proven = true;
  e.publish = kCopy;
  for (const State state : {State::parked, State::scheduled}) {
    const Decision d = decide(task_in(state), e, rules(), at());
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_EQ(d.task.state, State::succeeded);
    EXPECT_EQ(d.task.attempt, 3);
    EXPECT_EQ(d.attempt->attempt, 3);
    EXPECT_EQ(d.reason, "") << "the row was not behind";
  }
}

// Its headers say what was: the error for which it was parked, and its queue.
TEST(ParkedCopy, WhereAndHowItFailedIsInTheBrokersRecord) {
  const auto tokens = DeliveryTokens::from_hex(DeliveryTokens::new_key());
  const std::string digest(16, 'd');
  FailureFacts record;
  record.queue = "other";
  record.reason = "rejected";
  Message message;
  message.headers = Table{{"retry-queue", "orders"},
                          {"retry-error", "the error before"},
                          {"retry-token", tokens->token({4711}, 3, digest, kCopy)}};
  Failure f = read_failure(message, "", "other", record);
  EXPECT_EQ(f.queue, "other");
  EXPECT_EQ(f.error, "dead-lettered: rejected (queue other)");
  // Published to <prefix>.failed: there is no record.
  f = read_failure(message, "rung.failed", "", {});
  EXPECT_EQ(f.queue, "orders");
  EXPECT_EQ(f.error, "the error before");
  // It is no repeat of the original's failure, which was published just like that.
  message.properties.message_id = "m-1";
  const std::string key = intake_key(f, message, digest);
  f.token.clear();
  EXPECT_NE(intake_key(f, message, digest), key);
}

}  // namespace
}  // namespace rung
