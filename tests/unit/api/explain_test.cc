// What the rules decide for a failure. The machine's decisions have tests of their own; these are about how
// it is asked, and what is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/queues/queues.h"

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

std::string result_of(const Json& failure) {
  return explain_failure(failure, *web_rules()).at("result").get<std::string>();
}

TEST(Explain, TheLadderWhereNoRuleMatches) {
  const Json first = explain_failure({{"queue", "orders"}, {"error", "boom"}}, *web_rules());
  EXPECT_EQ(first.at("action"), nullptr);
  EXPECT_EQ(first.at("rule"), nullptr);
  EXPECT_THAT(first.at("rules"), SizeIs(2));
  EXPECT_EQ(first.at("delay_ms"), 5000);
  EXPECT_EQ(first.at("counts"), true);
  EXPECT_EQ(first.at("result"), "retry in 5s, level 1 of 2 of ladder default");
  EXPECT_EQ(result_of({{"queue", "orders"}, {"error", "boom"}, {"attempt", 1}}),
            "retry in 1h, level 2 of 2 of ladder default");
  EXPECT_EQ(result_of({{"queue", "orders"}, {"error", "boom"}, {"attempt", 2}}),
            "parked: the ladder has no more levels");
  EXPECT_THAT(explain_failure({{"queue", "elsewhere"}}, *web_rules()).at("rules"), SizeIs(0));
}

TEST(Explain, TheFirstRuleThatMatchesAndWhyTheOthersDoNot) {
  const Json parked = explain_failure(
      {{"queue", "orders"}, {"error", "HTTP 404"}, {"error_type", "HttpError"}}, *web_rules());
  EXPECT_EQ(parked.at("rule"), "web[2]");
  EXPECT_EQ(parked.at("action"), "park");
  EXPECT_EQ(parked.at("state"), "parked");
  EXPECT_EQ(parked.at("delay_ms"), nullptr);
  EXPECT_EQ(parked.at("delays_ms"), Json({5000, 3'600'000}));
  EXPECT_NE(parked.at("rules")[0].at("why_not"), nullptr);
  EXPECT_EQ(parked.at("rules")[1].at("matches"), true);
  EXPECT_EQ(parked.at("error_type"), "HttpError");
  EXPECT_EQ(parked.at("cause"), "http 404");
  EXPECT_EQ(parked.at("result"), "parked (rule web[2])");
  const Json waits = explain_failure({{"queue", "orders"},
                                      {"error", "HTTP 429"},
                                      {"error_type", "HttpError"},
                                      {"headers", {{"tenant", "acme"}}},
                                      {"attempt", 1}},
                                     *web_rules());
  EXPECT_THAT(waits.at("rules"), SizeIs(1));
  EXPECT_EQ(waits.at("result"), "retry in 1m, still level 1; the attempt is not counted (rule web[1])");
}

TEST(Explain, ReasonsOfTheBroker) {
  const auto of = [](const char* reason) {
    return explain_failure({{"queue", "orders"}, {"reason", reason}, {"attempt", 1}}, *web_rules());
  };
  EXPECT_THAT(of("expired").at("cause").get<std::string>(), testing::HasSubstr("expired"));
  EXPECT_EQ(of("silent").at("error_type"), "timed_out");
  EXPECT_EQ(of("returned").at("error_type"), "returned");
}

}  // namespace
}  // namespace rung::api
