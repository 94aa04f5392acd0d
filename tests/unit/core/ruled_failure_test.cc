// What the state machine does with a failure that a rule matches, and when a policy gives up.
#include <gmock/gmock.h>

#include "tests/unit/core/rules_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using Kind = RuleAction::Kind;

RuleBook book(std::vector<FailureRule> rules, GiveUp give_up = {}) {
  const RuleBook base = testing::rules();
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i].name = "list[" + std::to_string(i + 1) + "]";
  RuleBook::Queues queues = base.queues();
  queues["orders"].rules = "list";
  queues["orders"].give_up = give_up;
  return RuleBook(base.ladders(), queues, {}, {}, {},
                  {{"list", std::make_shared<const FailureRules>(std::move(rules))}});
}

event::Failed failed_with(const std::string& error, const std::string& type = "", Directives d = {}) {
  return {0, error, type, std::move(d)};
}

Decision after(const RuleBook& rules, const event::Failed& what, Task task = task_in(State::awaiting)) {
  const Decision d = decide(task, what, rules, at());
  EXPECT_EQ(d.verdict, Decision::Verdict::applied) << d.reason;
  expect_sound(d.task);
  return d;
}

TEST(RuledFailure, SnoozeKeepsTheLevelAndCountsNoAttempt) {
  const RuleBook rules = book({rule(error("/429/"), snooze(minutes(5)))});
  Task task = task_in(State::awaiting);  // attempt 2, level 2 of 3
  task.max_attempts = 3;
  for (int i = 0; i < 10; ++i) {
    task = after(rules, failed_with("HTTP 429"), task).task;
    ASSERT_EQ(task.state, State::scheduled) << i;
    EXPECT_EQ(task.level, 2);
    EXPECT_EQ(task.next_at, kNow + minutes(5));
    EXPECT_EQ(counted_attempts(task), 1) << "the first attempt had failed otherwise";
    task.next_at = kNow;
    task = decide(task, event::Claim{}, rules, at()).task;
    EXPECT_EQ(task.attempt, 3 + i) << "each delivery has a number of its own";
  }
  task = after(rules, failed_with("boom"), task).task;
  EXPECT_EQ(task.level, 3) << "the ladder goes on where it was";
}

TEST(RuledFailure, SnoozeAtTheFirstFailureLeavesTheWholeLadder) {
  const RuleBook rules = book({rule(error("/429/"), snooze(minutes(5)))});
  Task task;
  task.id = {1};
  task.queue = "orders";
  task.first_failed_at = task.created_at = kNow;
  task.last_error = "HTTP 429";
  begin(task, {}, rules, kNow, 0.0);
  EXPECT_EQ(task.state, State::scheduled);
  EXPECT_EQ(task.level, 0);
  EXPECT_EQ(counted_attempts(task), 0) << "there was no attempt yet that could go uncounted";
  EXPECT_EQ(task.next_at, kNow + minutes(5));
  EXPECT_EQ(task.rule, "list[1]");
  task.next_at = kNow;
  task = decide(task, event::Claim{}, rules, at()).task;
  task = after(rules, failed_with("boom"), task).task;
  EXPECT_EQ(task.level, 1);
  EXPECT_EQ(task.next_at, kNow + seconds(5));
}

TEST(RuledFailure, DelayReplacesTheLevelsDelayAndTheConsumersWordReplacesIt) {
  RuleAction then;
  then.delay = seconds(7);
  const RuleBook rules = book({rule({}, then)});
  EXPECT_EQ(after(rules, failed_with("x")).task.next_at, kNow + seconds(7));
  EXPECT_EQ(after(rules, failed_with("x")).task.level, 3) << "it climbs";
  Directives d;
  d.retry_after = seconds(11);
  EXPECT_EQ(after(rules, failed_with("x", "", d)).task.next_at, kNow + seconds(11));
}

TEST(RuleBookHeaders, AreThoseOfRulesAndOfGatesEachOnce) {
  const auto limited_by = [](const std::string& header) {
    QueueRules queue;
    queue.gate.rate_by = RateBy{header, 5};
    return queue;
  };
  RuleConditions when;
  when.headers = {{"tier", "gold"}, {"tenant", "*"}};
  const RuleBook rules(
      {{"default", ladder({seconds(5)})}},
      {{"orders", limited_by("tenant")}, {"mails", limited_by("sender")}, {"other", QueueRules{}}}, {},
      limited_by("region"), {},
      {{"list", std::make_shared<const FailureRules>(std::vector{rule(when, {})})}});
  EXPECT_EQ(rules.rule_headers(), (std::vector<std::string>{"region", "sender", "tenant", "tier"}));
}

TEST(RuledFailure, TheQueuesCapOfRetryAfterReplacesThatOfTheLadder) {
  const auto wait = [](std::optional<Ms> cap, Ms asked, const RuleAction& then = {}) {
    QueueRules queue;
    queue.rules = "list";
    queue.gate.retry_after.cap = cap;
    const RuleBook rules({{"default", ladder({seconds(5), minutes(1)})}}, {{"orders", queue}}, {}, {}, {},
                         {{"list", std::make_shared<const FailureRules>(std::vector{rule({}, then)})}});
    Task task = task_in(State::awaiting);
    task.level = 1;
    Directives d;
    d.retry_after = asked;
    return *after(rules, failed_with("x", "", d), task).task.next_at - kNow;
  };
  EXPECT_EQ(wait({}, hours(2)), minutes(1));
  EXPECT_EQ(wait(hours(6), hours(2)), hours(2)) << "longer than the ladder's";
  EXPECT_EQ(wait(hours(6), hours(7)), hours(6));
  EXPECT_EQ(wait(seconds(20), minutes(1)), seconds(20)) << "shorter than the ladder's";
  RuleAction snooze;
  snooze.kind = RuleAction::Kind::snooze;
  snooze.snooze = hours(1);
  EXPECT_EQ(wait({}, hours(2), snooze), hours(1));
  EXPECT_EQ(wait(seconds(20), hours(2), snooze), seconds(20));
}

TEST(RuledFailure, AnotherLadderHoldsForThisStep) {
  RuleAction then;
  then.ladder = "slow";
  const RuleBook rules = book({rule(type({"T"}), then)});
  Task task = task_in(State::awaiting);
  task.level = 1;
  task = after(rules, failed_with("x", "T"), task).task;
  EXPECT_EQ(task.ladder, "slow");
  EXPECT_EQ(task.level, 2);
  EXPECT_EQ(task.levels, 2);
  EXPECT_EQ(task.next_at, kNow + hours(1));
  EXPECT_FALSE(task.ladder_pinned);
  task = after(rules, failed_with("x", "Other"), decide(task, event::Claim{hours(1)}, rules, at()).task).task;
  EXPECT_EQ(task.ladder, "default") << "no rule matches: the queue's ladder again";
  EXPECT_EQ(task.level, 3);
}

TEST(RuledFailure, GoesToAnotherQueueAndItsRedeliveredFailureIsNoStranger) {
  RuleAction then;
  then.to = "slow-orders";
  const RuleBook rules = book({rule({}, then)});
  event::Failed what = failed_with("x");
  what.attempt = 2;
  what.queue = "orders";
  Task task = after(rules, what).task;
  EXPECT_EQ(task.queue, "slow-orders");
  EXPECT_EQ(task.moved_from, "orders");
  EXPECT_EQ(task.level, 3);
  // We died before the ack: the broker delivers the failed message again.
  EXPECT_EQ(decide(task, what, rules, at()).verdict, Decision::Verdict::stale);
  what.queue = "elsewhere";
  EXPECT_EQ(decide(task, what, rules, at()).reason, kAnothersTask);
}

TEST(RuledFailure, ReasonsOfTheBrokerAndOfSilence) {
  RuleConditions silent, expired;
  silent.reasons = {"silent"};
  expired.reasons = {"expired"};
  RuleBook rules = book({rule(silent, action(Kind::park)), rule(expired, action(Kind::discard))});
  EXPECT_EQ(after(rules, failed_with("dead-lettered: expired (queue orders)")).task.state, State::discarded);
  RuleBook::Queues queues = rules.queues();
  queues["orders"].silence = {Silence::Means::failure, minutes(5)};
  rules = RuleBook(rules.ladders(), queues, {}, {}, {}, rules.rule_lists());
  const Decision d = decide(task_in(State::awaiting, kNow), event::SilenceOver{}, rules, at());
  EXPECT_EQ(d.task.state, State::parked);
  EXPECT_EQ(d.task.rule, "list[1]");
}

// ---- give_up

TEST(GiveUp, AfterSoManyFailedRetries) {
  const RuleBook rules = book({}, {2});
  Task task = task_in(State::awaiting);
  task.attempt = 1;
  task.level = 1;
  EXPECT_EQ(after(rules, failed_with("x"), task).task.state, State::scheduled);
  const Decision d = after(rules, failed_with("x"));
  EXPECT_EQ(d.task.state, State::parked);
  EXPECT_EQ(d.task.rule, "give_up");
  EXPECT_EQ(d.task.last_error, "x [gave up: 2 attempts failed]");
}

TEST(GiveUp, WhereTheNextRetryWouldBeTooLate) {
  Task task = task_in(State::awaiting);  // failed first an hour ago; the next delay is a minute
  EXPECT_EQ(after(book({}, {0, hours(1) + minutes(1)}), failed_with("x"), task).task.state, State::scheduled);
  const RuleBook rules = book({}, {0, hours(1) + minutes(1) - Ms{1}});
  const Decision d = after(rules, failed_with("x"), task);
  EXPECT_EQ(d.task.state, State::parked);
  EXPECT_THAT(d.task.last_error, HasSubstr("gave up: the next retry would be later than 1h59s999ms"));
}

TEST(GiveUp, TimeBehindAGateIsNotCounted) {
  Task task = task_in(State::scheduled, kNow - minutes(30));
  const RuleBook rules = book({}, {0, minutes(32)});
  task = decide(task, event::Claim{Ms{0}, minutes(30)}, rules, at()).task;
  EXPECT_EQ(task.uncounted_time, minutes(30));
  EXPECT_EQ(counted_age(task, kNow), minutes(30));
  EXPECT_EQ(after(rules, failed_with("x"), task).task.state, State::scheduled);
}

TEST(GiveUp, ARedriveStartsAnew) {
  const RuleBook rules = book({}, {2, hours(2)});
  Task task = task_in(State::parked);
  task = decide(task, event::Redrive{}, rules, at()).task;
  EXPECT_EQ(counted_attempts(task), 0);
  EXPECT_EQ(counted_age(task, kNow), Ms{0});
  task = decide(task, event::Claim{}, rules, at()).task;
  EXPECT_EQ(after(rules, failed_with("x"), task).task.state, State::scheduled);
}

// Rules of two queues that move a task back and forth: no attempt is counted, so nothing else ends it.
TEST(RuledFailure, SnoozesBetweenQueuesEnd) {
  RuleAction there = snooze(minutes(1)), back = there;
  there.to = "invoices";
  back.to = "orders";
  const RuleBook base = testing::rules();
  RuleBook::Queues queues = base.queues();
  queues["orders"].rules = "there";
  queues["invoices"].rules = "back";
  const auto list_of = [](RuleAction then, const char* name) {
    FailureRule one = rule({}, std::move(then));
    one.name = name;
    return std::make_shared<const FailureRules>(std::vector{one});
  };
  const RuleBook rules(base.ladders(), queues, {}, {}, {},
                       {{"there", list_of(there, "there[1]")}, {"back", list_of(back, "back[1]")}});
  Task task = task_in(State::awaiting);
  int moves = 0;
  for (; moves < 1000 && task.state != State::parked; ++moves) {
    task = after(rules, failed_with("x"), task).task;
    if (task.state != State::scheduled) break;
    task.next_at = kNow;
    task = decide(task, event::Claim{}, rules, at()).task;
  }
  EXPECT_EQ(task.state, State::parked);
  EXPECT_EQ(moves, 100);
  EXPECT_EQ(task.rule, "move_limit");
  EXPECT_THAT(task.last_error, HasSubstr("after 100 uncounted attempts, the rule there[1] would move it"));
}

}  // namespace
}  // namespace rung
