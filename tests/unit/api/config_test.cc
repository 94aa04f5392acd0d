// What the API says of the config.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "src/api/queues/rules.h"

namespace rung::api {
namespace {

TEST(QueueConfig, NamesTheEntryThatTheQueueFollowsAndItsLadder) {
  RuleBook::Ladders ladders{{"default", *levels::Ladder::from_list({Ms{1000}})},
                            {"slow", *levels::Ladder::from_list({Ms{60'000}, Ms{3'600'000}})}};
  QueueRules slow, named;
  slow.ladder = "slow";
  slow.rules = named.rules = "web";
  FailureRule rule;
  rule.name = "web[1]";
  rule.then.kind = RuleAction::Kind::park;
  const RuleBook rules(
      ladders, {{"ships", named}}, {}, {}, {},
      {{"web", std::make_shared<const FailureRules>(std::vector{rule})}},
      std::make_shared<const ErrorQueues>(),
      {{QueuePattern("orders-?"), slow}, {QueuePattern("[ms]*"), slow}, {QueuePattern("m*"), QueueRules{}}});
  const auto entry = [&](const char* queue) { return queue_config_json(rules, queue).at("entry"); };
  EXPECT_EQ(entry("orders-1"), "orders-?");
  EXPECT_EQ(entry("mails"), "[ms]*") << "the longest";
  EXPECT_EQ(entry("ships"), "ships") << "its own name first";
  EXPECT_EQ(entry("orders-12"), nullptr) << "the defaults";
  const Json orders = queue_config_json(rules, "orders-1"), other = queue_config_json(rules, "orders-12");
  EXPECT_EQ(orders.at("ladder"), "slow");
  EXPECT_EQ(orders.at("delays_ms"), (Json{60'000, 3'600'000}));
  EXPECT_EQ(orders.at("failure_rules").at(0).at("name"), "web[1]");
  EXPECT_EQ(other.at("delays_ms"), (Json{1000}));
  EXPECT_TRUE(other.at("failure_rules").empty());
}

}  // namespace
}  // namespace rung::api
