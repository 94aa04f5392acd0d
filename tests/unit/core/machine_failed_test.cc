// Failures, and the ladders that they climb.
#include "src/core/base/utf8.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

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

}  // namespace
}  // namespace rung
