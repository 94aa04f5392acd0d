// Delays in the state machine: what only waits, where it goes, what its first failure makes of it; and what
// people do with what is scheduled.
#include <gmock/gmock.h>

#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using Verdict = Decision::Verdict;

RuleBook with_tags() {
  const RuleBook plain = rules();
  return RuleBook(
      plain.ladders(), plain.queues(),
      {{"close-order", {{"orders", "", ""}, "slow", Silence{Silence::Means::failure, minutes(2)}}},
       {"remind", {{"", "shop", "reminders"}, "", std::nullopt}},
       {"bare", {}}});
}

Task delay_to(Target target, const std::string& tag = "", Directives d = {},
              EpochMs due = kNow + minutes(30)) {
  Task t;
  t.id = {4712};
  t.kind = Kind::delay;
  t.created_at = kNow;
  t.queue = target.queue;
  t.exchange = target.exchange;
  t.routing_key = target.routing_key;
  t.tag = tag;
  begin_delay(t, d, with_tags(), kNow, due);
  return t;
}

Task claimed(const Task& t) { return decide(t, event::Claim{}, with_tags(), at(*t.next_at)).task; }
Task awaiting(const Task& t) {
  const Task c = claimed(t);
  return decide(c, event::Confirmed{c.attempt, *c.next_at}, with_tags(), at(*c.next_at)).task;
}

TEST(BeginDelay, WaitsAtLevelZero) {
  const Task t = delay_to({"orders", "", ""});
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.kind, Kind::delay);
  EXPECT_EQ(t.level, 0);
  EXPECT_EQ(t.levels, 3);
  EXPECT_EQ(t.attempt, 0);
  EXPECT_EQ(t.next_at, kNow + minutes(30));
  EXPECT_EQ(t.first_failed_at.ms, 0);
  EXPECT_EQ(t.last_error, "");
  EXPECT_EQ(delay_to({"orders", "", ""}, "", {}, kNow - hours(1)).next_at, kNow) << "what is over is now";
}

TEST(BeginDelay, ItsTagSaysWhatItDoesNot) {
  const Task t = delay_to({}, "close-order");
  EXPECT_EQ(t.queue, "orders");
  EXPECT_EQ(t.ladder, "slow");
  EXPECT_TRUE(t.ladder_pinned);
  EXPECT_EQ(t.silence, (Silence{Silence::Means::failure, minutes(2)}));
  const Task own = delay_to({"invoices", "", ""}, "close-order");
  EXPECT_EQ(own.queue, "invoices") << "the message's own word goes before";
  EXPECT_EQ(own.ladder, "slow");
  EXPECT_EQ(target_of(delay_to({}, "remind")), (Target{"", "shop", "reminders"}));
  Directives d;
  d.ladder = "shaky";
  EXPECT_EQ(delay_to({}, "close-order", d).ladder, "shaky");
}

TEST(BeginDelay, NowhereIsParked) {
  for (const char* tag : {"", "bare", "unheard of"}) {
    const Task t = delay_to({}, tag);
    EXPECT_EQ(t.state, State::parked) << tag;
    EXPECT_THAT(t.last_error, HasSubstr("nothing says where it goes"));
    EXPECT_EQ(t.finished_at, kNow);
  }
}

TEST(Delay, ADeliveryOfItsOwnThenTheLadderFromItsFirstRung) {
  const Task first = awaiting(delay_to({"orders", "", ""}));
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(first.level, 0);
  const EpochMs later = kNow + hours(1);
  const Decision d = decide(first, failed(1), with_tags(), at(later));
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.task.level, 1);
  EXPECT_EQ(d.task.next_at, later + seconds(5));
  EXPECT_EQ(d.task.first_failed_at, later);
  EXPECT_EQ(d.attempt->level, 0);
}

TEST(Delay, ByAnExchangeItsFirstDeadLetterTellsTheQueue) {
  const Task first = awaiting(delay_to({"", "shop", "created"}));
  EXPECT_EQ(target_of(first), (Target{"", "shop", "created"}));
  event::Failed dead = failed(1);
  dead.queue = "invoices";
  const Decision d = decide(first, dead, with_tags(), at());
  EXPECT_EQ(d.task.queue, "invoices");
  EXPECT_EQ(target_of(d.task), (Target{"invoices", "", ""})) << "other queues of the exchange get no copies";
  // From then on it is that queue's.
  event::Failed other = failed(2);
  other.queue = "orders";
  const Task again = awaiting(d.task);
  EXPECT_EQ(decide(again, other, with_tags(), at()).reason, kAnothersTask);
  // A failure that is reported names no queue.
  EXPECT_EQ(target_of(decide(first, failed(1), with_tags(), at()).task), (Target{"", "shop", "created"}));
}

TEST(Delay, OfSeveralQueuesBehindAnExchangeEachHasItsWord) {
  const Task first = awaiting(delay_to({"", "shop", "created"}));
  event::Failed dead = failed(1);
  dead.queue = "invoices";
  // One succeeded: the other's failure is a task of its own, not a late word.
  const Task ended = decide(first, event::Succeeded{1}, with_tags(), at()).task;
  EXPECT_EQ(ended.state, State::succeeded);
  EXPECT_EQ(decide(ended, dead, with_tags(), at()).reason, kAnothersTask);
  // One failed: the other's success does not end its climb, neither now nor while the next attempt is under
  // way.
  const Task climbing = decide(first, dead, with_tags(), at()).task;
  EXPECT_EQ(decide(climbing, event::Succeeded{1}, with_tags(), at()).verdict, Verdict::stale);
  const Task again = awaiting(climbing);
  EXPECT_EQ(decide(again, event::Succeeded{1}, with_tags(), at()).verdict, Verdict::stale);
  EXPECT_EQ(decide(again, event::Succeeded{2}, with_tags(), at()).task.state, State::succeeded);
  Task presumed = again;
  presumed.state = State::succeeded;
  presumed.finished_by = FinishedBy::presumed;
  EXPECT_EQ(decide(presumed, event::Succeeded{2}, with_tags(), at()).task.finished_by, FinishedBy::reported);
}

TEST(Delay, ParkedOnArrivalItKeepsWhereItWasToGo) {
  Task t;
  t.tag = "close-order";
  Directives d;
  d.complaint = "retry-never is not understood: true or false";
  begin_delay(t, d, with_tags(), kNow, kNow, "x-delay 'soon' is no number");
  EXPECT_EQ(t.state, State::parked);
  EXPECT_EQ(t.last_error, "x-delay 'soon' is no number [retry-never is not understood: true or false]");
  EXPECT_TRUE(target_of(t).is_set());
  EXPECT_EQ(t.ladder, "slow");
  EXPECT_EQ(decide(t, event::Redrive{}, with_tags(), at()).verdict, Verdict::applied);
}

TEST(Delay, ItsOwnSilenceGoesBeforeItsQueues) {
  const Task t = awaiting(delay_to({}, "close-order"));
  EXPECT_EQ(t.next_at, kNow + minutes(32));
  const Decision d = decide(t, event::SilenceOver{}, with_tags(), at(*t.next_at));
  EXPECT_EQ(d.task.state, State::scheduled);
  EXPECT_EQ(d.attempt->outcome, Outcome::timed_out);
  const Task plain = awaiting(delay_to({"orders", "", ""}));
  EXPECT_EQ(decide(plain, event::SilenceOver{}, with_tags(), at(*plain.next_at)).task.finished_by,
            FinishedBy::presumed);
}

// ---- by a person

TEST(Reschedule, ToAnotherTime) {
  const Task t = delay_to({"orders", "", ""});
  const Decision at_time = decide(t, event::Reschedule{kNow + hours(5), Ms{0}}, rules(), at());
  EXPECT_EQ(at_time.task.next_at, kNow + hours(5));
  EXPECT_EQ(at_time.task.version, t.version + 1);
  EXPECT_EQ(at_time.task.level, 0);
  EXPECT_EQ(decide(t, event::Reschedule{std::nullopt, hours(3)}, rules(), at()).task.next_at,
            kNow + hours(3));
  EXPECT_EQ(decide(t, event::Reschedule{kNow - hours(3), Ms{0}}, rules(), at()).task.next_at, kNow)
      << "never before now";
  EXPECT_EQ(decide(t, event::Reschedule{t.next_at, Ms{0}}, rules(), at()).verdict, Verdict::stale);
}

TEST(Redrive, Elsewhere) {
  Task parked = task_in(State::parked);
  parked.level = 3;
  const Decision to_queue = decide(parked, event::Redrive{{"invoices", "", ""}}, rules(), at());
  EXPECT_EQ(to_queue.task.state, State::scheduled);
  EXPECT_EQ(target_of(to_queue.task), (Target{"invoices", "", ""}));
  EXPECT_EQ(to_queue.task.next_at, kNow);
  EXPECT_EQ(to_queue.task.level, 1);
  const Decision by_exchange = decide(parked, event::Redrive{{"", "shop", "again"}}, rules(), at());
  EXPECT_EQ(target_of(by_exchange.task), (Target{"", "shop", "again"}));
  // A failure from there is its own, whatever kind it is.
  event::Failed dead = failed(by_exchange.task.attempt + 1);
  dead.queue = "invoices";
  EXPECT_EQ(decide(awaiting(by_exchange.task), dead, rules(), at()).task.queue, "invoices");
  // What never had a target needs one.
  const Task nowhere = delay_to({});
  EXPECT_EQ(decide(nowhere, event::Redrive{}, rules(), at()).verdict, Verdict::refused);
  EXPECT_EQ(decide(nowhere, event::Redrive{{"orders", "", ""}}, rules(), at()).verdict, Verdict::applied);
}

}  // namespace
}  // namespace rung
