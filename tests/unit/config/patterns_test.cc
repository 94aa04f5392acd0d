// `queues` by pattern, merge keys, placeholders of `node`, what a reload changes, and fingerprints.
#include <unistd.h>

#include <array>

#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ConfigPatterns : public ConfigTest {};

TEST_F(ConfigPatterns, OneLineForManyQueues) {
  const Config config = good(kServers + R"(
ladders: { fast: [1s], slow: [1h] }
queues:
  "orders.*": { ladder: fast, gate: { rate: 5/s } }
  orders.big: { ladder: slow }
  "odd[*]": { ladder: slow }
)");
  EXPECT_EQ(config.rules->queue("orders.eu").ladder, "fast");
  EXPECT_EQ(config.rules->queue("orders.big").ladder, "slow");
  EXPECT_EQ(config.rules->queue("odd*").ladder, "slow");
  EXPECT_EQ(config.rules->queue("odd-one").ladder, "default");
  EXPECT_EQ(config.rules->queues().size(), 2U);
  const std::string text = describe(config);
  EXPECT_THAT(text, HasSubstr("\n  orders.*     fast "));
  EXPECT_THAT(text, HasSubstr("are patterns"));
  EXPECT_THAT(text, HasSubstr("rate 5/s\n"));
  EXPECT_THAT(describe_queue(config, "orders.eu"),
              HasSubstr("queue orders.eu follows queues.orders.*, a pattern\n"));
  EXPECT_THAT(describe_queue(config, "orders.big"), HasSubstr("queues.orders.big, its own name"));
  EXPECT_THAT(describe_queue(config, "x"), HasSubstr("queue x follows the defaults"));
}

TEST_F(ConfigPatterns, KeysLeftOutComeFromTheDefaultsNotFromAnotherPattern) {
  const Config config = good(kServers + R"(
defaults: { catch_up: 7 }
queues:
  "*": { parked: publish, catch_up: 5 }
  "orders.*": { ladder: default }
)");
  EXPECT_FALSE(config.rules->queue("orders.eu").publish_parked);
  EXPECT_EQ(config.rules->queue("orders.eu").catch_up, 7);
  EXPECT_EQ(config.rules->queue("others").catch_up, 5);
}

TEST_F(ConfigPatterns, Errors) {
  std::string many = kServers + "queues:\n";
  for (int i = 0; i < 1001; ++i) many += "  \"q" + std::to_string(i) + "*\": {}\n";
  EXPECT_THAT(problems(many), ElementsAre(HasSubstr("more than 1000 patterns")));
  EXPECT_THAT(warnings(kServers + "broker: { targets: { allow: [] } }\n"), IsEmpty());
}

TEST_F(ConfigPatterns, AWidePatternLetsHeadersNameEveryQueue) {
  const std::string servers =
      "broker: { url: \"amqp://u@h\", targets: { allow: [] } }\nstore: { url: \"mysql://u@h/s\" }\n";
  EXPECT_THAT(warnings(servers + "queues: { \"*\": {} }\n"), ElementsAre(HasSubstr("broker.targets.allow")));
  EXPECT_THAT(warnings(servers + "queues: { \"orders.*\": {} }\n"), IsEmpty());
  EXPECT_THAT(warnings(servers + "queues: { '^orders\\.': {} }\n"),
              ElementsAre(HasSubstr("queues: \"^orders\\.\" is no regular expression here: * stands for")));
}

TEST_F(ConfigPatterns, RulesByQueueAreNotCheckedAgainstAPattern) {
  EXPECT_THAT(warnings(kServers + "queues: { \"o*\": { rules: r } }\n"
                                  "rules: { r: [{ when: { queue: orders }, then: park }] }\n"),
              IsEmpty());
}

TEST_F(ConfigPatterns, AnErrorQueueMayMatchAPattern) {
  EXPECT_THAT(problems(kServers + "queues: { \"orders*\": {} }\n"
                                  "error_queues: [{ from: orders_error, dialect: masstransit }]\n"),
              IsEmpty());
}

TEST_F(ConfigPatterns, MergeKeys) {
  const Config config = good(kServers + R"(
ladders: { fast: [1s] }
queues:
  orders: &base { ladder: fast, catch_up: 5 }
  invoices: { <<: *base, catch_up: 6 }
  returns: { parked: publish, <<: [*base] }
)");
  EXPECT_EQ(config.rules->queue("invoices").ladder, "fast");
  EXPECT_EQ(config.rules->queue("invoices").catch_up, 6);
  EXPECT_EQ(config.rules->queue("returns").catch_up, 5);
  EXPECT_TRUE(config.rules->queue("returns").publish_parked);
}

TEST_F(ConfigPatterns, AQueueThatIsCalledLikeAKeyIsSuspected) {
  EXPECT_THAT(warnings(kServers + "queues:\n  orders:\n  gate:\n"),
              ElementsAre(HasSubstr("if gate is a key")));
  EXPECT_THAT(warnings(kServers + "queues:\n  ladder: { ladder: default }\n"), IsEmpty());
}

TEST_F(ConfigPatterns, NodePlaceholders) {
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(good(kServers).node, host.data());
  const std::string text = kServers + "node: \"%H-%i\"\n";
  unsetenv("RUNG_INSTANCE");
  EXPECT_THAT(problems(text), ElementsAre(HasSubstr("RUNG_INSTANCE, which is not set")));
  EXPECT_TRUE(load_config(write("rung.yaml", text), ConfigFor::database).ok());
  env("RUNG_INSTANCE", "2");
  EXPECT_EQ(good(text).node, std::string(host.data()) + "-2");
}

TEST_F(ConfigPatterns, WhatAReloadChanges) {
  const Config before = good(kServers + R"(
catch_up: 100
ladders: { fast: [1s], slow: [1h] }
queues: { orders: { ladder: fast, success: { presumed_after: 60s } }, gone: {} }
)");
  const Config after = good(kServers + R"(
catch_up: 100
ladders: { fast: [2s], slow: [60m] }
queues: { new: {}, orders: { success: { presumed_after: 1m }, ladder: fast } }
rules: { r: [{ when: { type: A }, then: park }] }
log: { level: debug }
)");
  EXPECT_EQ(describe_changes(before, after),
            "~ladders.fast, +log.level, +queues.new, +rules.r, -queues.gone");
  EXPECT_EQ(describe_changes(before, before), "");
}

TEST_F(ConfigPatterns, AFingerprintIsThatOfTheEffectiveConfig) {
  const auto of = [&](const std::string& text) { return fingerprint(good(text)); };
  const std::string one = of(kServers + "node: a\nhttp: { listen: \"127.0.0.1:1\" }\nlease: 60s\n");
  EXPECT_EQ(one.size(), 16U);
  EXPECT_EQ(one, of("# other order\nlease: 1m\nnode: b\nhttp: { listen: \"127.0.0.1:2\" }\n"
                    "store: { url: \"mysql://rung:other@127.0.0.1:3306/rung\" }\n"
                    "broker: { url: \"amqp://guest:changed@127.0.0.1:5672/%2f\" }\n"));
  EXPECT_NE(one, of(kServers + "lease: 61s\n"));
  EXPECT_NE(one, of(kServers + "lease: 60s\nqueues: { a: {} }\n"));
}

}  // namespace
}  // namespace rung
