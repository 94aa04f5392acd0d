#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/queues/queues.h"
#include "src/core/base/time.h"

namespace rung::api {
namespace {

TEST(GateText, IsASentenceForEachGate) {
  QueueGate gate;
  gate.queue = "orders";
  gate.until = EpochMs{1'795'280'640'123};
  const auto text = [&](const std::string& state, const std::string& reason) {
    gate.state = state;
    gate.reason = reason;
    return gate_text(gate);
  };
  const std::string until = format_utc(*gate.until) + " UTC";
  EXPECT_EQ(text("outside_window", "window Mon-Fri 08:00-18:00 Europe/Berlin"),
            "queue orders is outside its window until " + until + " (Mon-Fri 08:00-18:00 Europe/Berlin)");
  EXPECT_EQ(text("breaker_open", "20 of the last 100 deliveries failed"),
            "queue orders: breaker open until " + until + " (20 of the last 100 deliveries failed)");
  EXPECT_EQ(text("breaker_half_open", "a probe failed: x"),
            "queue orders: breaker half-open, only probes go out (a probe failed: x)");
  EXPECT_EQ(text("rate_limited", "rate 200/s"), "waits for the rate of queue orders (rate 200/s)");
  gate.by = "retry-after";
  EXPECT_EQ(text("paused", "task 17 asked for 1h"),
            "queue orders is paused until " + until + " by retry-after (task 17 asked for 1h)");
  gate.by = "ann";
  gate.until.reset();
  EXPECT_EQ(text("paused", ""), "queue orders is paused until it is resumed by ann");
}

TEST(OverviewQueues, WhatIsHeldComesFirstAndIsNeverLeftOut) {
  std::vector<QueueGate> gates(5);
  for (std::size_t i = 0; i < gates.size(); ++i) {
    gates[i].queue = std::string(1, static_cast<char>('a' + i));
    gates[i].state = "flowing";
    gates[i].waiting = static_cast<std::int64_t>(i) * 100;
  }
  gates[0].state = "paused";  // with nothing that waits
  gates[1].state = "breaker_open";
  const auto names = [](const Json& json) {
    std::string all;
    for (const Json& queue : json.at("queues")) all += queue.at("queue").get<std::string>();
    return all;
  };
  const Json cut = overview_queues(gates, 3);
  EXPECT_EQ(names(cut), "bae");
  EXPECT_EQ(cut.at("queues_left_out"), 2);
  EXPECT_EQ(names(overview_queues(gates, 1)), "ba");
  EXPECT_EQ(names(overview_queues(gates, 200)), "baedc");
}

// ---- What the API says of the config.

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
