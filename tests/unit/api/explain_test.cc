// What the rules decide for a failure. The machine's decisions have tests of their own; these are about how
// it is asked, and what is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/queues/rules.h"

namespace rung::api {
namespace {

using testing::SizeIs;

// Queue "orders": HTTP 429 of tenant acme waits a minute, an HttpError is parked, all else climbs 5 s and 1
// h.
RuleBookPtr web_rules() {
  FailureRule throttled, wrong;
  throttled.name = "web[1]";
  throttled.when.error = *parse_rule_regex("/HTTP 429/");
  throttled.when.headers = {{"tenant", "acme"}};
  throttled.then.kind = RuleAction::Kind::snooze;
  throttled.then.snooze = Ms{60'000};
  wrong.name = "web[2]";
  wrong.when.types = {"HttpError"};
  wrong.then.kind = RuleAction::Kind::park;
  QueueRules orders;
  orders.rules = "web";
  orders.silence = {Silence::Means::failure, Ms{60'000}};
  return std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{5000}, Ms{3'600'000}})}},
      RuleBook::Queues{{"orders", orders}}, RuleBook::Tags{}, QueueRules{}, TargetRules{},
      RuleBook::RuleLists{{"web", std::make_shared<const FailureRules>(std::vector{throttled, wrong})}});
}

TEST(Explain, TheLadderWhereNoRuleMatches) {
  const auto book = web_rules();
  const Explanation first = explain_failure({.queue = "orders", .error = "boom"}, *book);
  EXPECT_EQ(first.match(), nullptr);
  EXPECT_THAT(first.tried, SizeIs(2));
  EXPECT_EQ(first.delay, Ms{5000});
  EXPECT_EQ(result_text(first), "retry in 5s, level 1 of 2 of ladder default");
  const Explanation second = explain_failure({.queue = "orders", .error = "boom", .attempt = 1}, *book);
  EXPECT_EQ(result_text(second), "retry in 1h, level 2 of 2 of ladder default");
  const Explanation last = explain_failure({.queue = "orders", .error = "boom", .attempt = 2}, *book);
  EXPECT_EQ(result_text(last), "parked: the ladder has no more levels");
  EXPECT_THAT(explain_failure({.queue = "elsewhere"}, *book).tried, SizeIs(0));
}

TEST(Explain, TheFirstRuleThatMatchesAndWhyTheOthersDoNot) {
  const auto book = web_rules();
  const Explanation parked =
      explain_failure({.queue = "orders", .error = "HTTP 404", .type = "HttpError"}, *book);
  ASSERT_NE(parked.match(), nullptr);
  EXPECT_EQ(parked.match()->name, "web[2]");
  EXPECT_NE(parked.tried[0].why_not, "");
  EXPECT_EQ(result_text(parked), "parked (rule web[2])");
  const Explanation waits = explain_failure({.queue = "orders",
                                             .error = "HTTP 429",
                                             .type = "HttpError",
                                             .headers = {{"tenant", "acme"}},
                                             .attempt = 1},
                                            *book);
  EXPECT_THAT(waits.tried, SizeIs(1));
  EXPECT_EQ(result_text(waits), "retry in 1m, still level 1; the attempt is not counted (rule web[1])");
}

TEST(Explain, AsJson) {
  const auto book = web_rules();
  const Json json =
      to_json(explain_failure({.queue = "orders", .error = "HTTP 404", .type = "HttpError"}, *book), *book);
  EXPECT_EQ(json.at("rule"), "web[2]");
  EXPECT_EQ(json.at("action"), "park");
  EXPECT_EQ(json.at("state"), "parked");
  EXPECT_EQ(json.at("delay_ms"), nullptr);
  EXPECT_EQ(json.at("delays_ms"), Json({5000, 3'600'000}));
  EXPECT_EQ(json.at("rules")[1].at("matches"), true);
  EXPECT_EQ(json.at("error_type"), "HttpError");
  EXPECT_EQ(json.at("cause"), "http 404");
  const Json climbs = to_json(explain_failure({.queue = "orders"}, *book), *book);
  EXPECT_EQ(climbs.at("action"), nullptr);
  EXPECT_EQ(climbs.at("rule"), nullptr);
  EXPECT_EQ(climbs.at("delay_ms"), 5000);
  EXPECT_EQ(climbs.at("counts"), true);
}

TEST(Explain, ReasonsOfTheBroker) {
  const auto book = web_rules();
  EXPECT_EQ(explain_failure({.queue = "orders", .reason = "expired"}, *book).after.last_error,
            "dead-lettered: expired (queue orders)");
  EXPECT_EQ(explain_failure({.queue = "orders", .reason = "silent", .attempt = 1}, *book).after.error_type,
            "timed_out");
  EXPECT_EQ(explain_failure({.queue = "orders", .reason = "returned", .attempt = 1}, *book).after.error_type,
            "returned");
}

}  // namespace
}  // namespace rung::api
