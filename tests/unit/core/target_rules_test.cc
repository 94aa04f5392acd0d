#include <gtest/gtest.h>

#include "src/core/rules/policy.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;

TEST(Pattern, AStarStandsForAnyCharacters) {
  for (const auto& [pattern, text] : {std::pair{"orders", "orders"},
                                      {"*", ""},
                                      {"*", "anything.at-all"},
                                      {"billing.*", "billing."},
                                      {"billing.*", "billing.eu.invoices"},
                                      {"*.dead", "orders.dead"},
                                      {"a*b*c", "aXbYbZc"},
                                      {"a**c", "ac"}}) {
    EXPECT_TRUE(matches_pattern(pattern, text)) << pattern << " " << text;
  }
  for (const auto& [pattern, text] : {std::pair{"orders", "orders2"},
                                      {"orders", "Orders"},
                                      {"", "x"},
                                      {"billing.*", "billing"},
                                      {"billing.*", "xbilling.a"},
                                      {"*.dead", "orders.dead.not"},
                                      {"a*b*c", "aXcYb"},
                                      {"a.c", "abc"}}) {
    EXPECT_FALSE(matches_pattern(pattern, text)) << pattern << " " << text;
  }
}

TEST(Targets, WithoutAnAllowListAllButRungsAndTheBrokersOwn) {
  TargetRules rules;
  rules.own = "rung.";
  EXPECT_TRUE(rules.allows("orders"));
  EXPECT_TRUE(rules.allows("rungs"));
  for (const char* name : {"rung.failed", "rung.delay", "rung.anything", "amq.topic", "amq.gen-Xy"})
    EXPECT_FALSE(rules.allows(name)) << name;
  rules.configured = {"amq.topic"};
  EXPECT_TRUE(rules.allows("amq.topic"));
}

RuleBook guarded() {
  TargetRules targets;
  targets.own = "rung.";
  targets.allow = {"orders"};
  return RuleBook(rules().ladders(), rules().queues(), {}, {}, targets);
}

TEST(Targets, AFailureCannotLeadATaskOfAnExchangeToAQueueThatIsNotAllowed) {
  Task task = task_in(State::awaiting);
  task.queue = "";
  task.by_exchange = true;
  task.exchange = "shop";
  const auto failed = [&](const char* queue) {
    return decide(task, event::Failed{0, "no", "", {}, queue}, guarded(), at()).task;
  };
  EXPECT_EQ(failed("orders").queue, "orders");
  EXPECT_EQ(failed("orders").state, State::scheduled);
  const Task kept = failed("secret");
  EXPECT_EQ(kept.queue, "");
  EXPECT_EQ(kept.state, State::parked);
  EXPECT_EQ(kept.last_error,
            "the failed message names 'secret', which broker.targets does not allow; last error: no");
}

// What was accepted before the list was made goes on, and a failure need not name a queue.
TEST(Targets, TheAllowListIsOnlyForAQueueThatAFailureGivesToATask) {
  Task task = task_in(State::awaiting);
  task.queue = "secret";
  const auto failed = [&](const char* queue) {
    return decide(task, event::Failed{0, "no", "", {}, queue}, guarded(), at()).task;
  };
  EXPECT_EQ(failed("secret").state, State::scheduled);
  EXPECT_EQ(failed("secret").last_error, "no");
  task.queue = "";
  task.by_exchange = true;
  task.exchange = "shop";
  EXPECT_EQ(failed("").last_error, "no");
}

TEST(Targets, NothingIsRedrivenIntoRungsOwnQueues) {
  const Task task = task_in(State::parked);
  for (const Target& target :
       {Target{"rung.failed", "", ""}, Target{"", "rung.delay", "x"}, Target{"", "", "rung.results"}}) {
    const Decision d = decide(task, event::Redrive{target}, guarded(), at());
    EXPECT_EQ(d.verdict, Decision::Verdict::refused);
    EXPECT_NE(d.reason.find("begins with rung."), std::string::npos) << d.reason;
  }
  EXPECT_EQ(decide(task, event::Redrive{{"elsewhere", "", ""}}, guarded(), at()).verdict,
            Decision::Verdict::applied);
}

}  // namespace
}  // namespace rung
