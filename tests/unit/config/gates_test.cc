// `gate` of queues and defaults, as users write it.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ConfigGates : public ConfigTest {
 protected:
  static std::string orders(const std::string& gate) {
    return "queues: { orders: { gate: { " + gate + " }, success: { reported_within: 5m } } }\n";
  }
  GateRules gate(const std::string& text) const {
    return good(kServers + orders(text)).rules->queue("orders").gate;
  }
};

TEST_F(ConfigGates, Rates) {
  EXPECT_EQ(gate("rate: 100000/s").rate, 100'000);
  EXPECT_EQ(gate("rate: 90/m").rate, 1.5);
  EXPECT_EQ(gate("rate: 1/h").rate, 1.0 / 3600);
}

TEST_F(ConfigGates, ValuesOfTheHeaderOfARateAreKeptAtIntake) {
  EXPECT_THAT(good(kServers + orders("rate_by: { header: tenant, rate: 5/s }")).rules->rule_headers(),
              ElementsAre("tenant"));
}

TEST_F(ConfigGates, Windows) {
  EXPECT_EQ(gate("window: { allow: [Mon 08:00-12:00, \"22:00-06:00\"], zone: UTC }").window->describe(),
            "Mon 08:00-12:00, 22:00-06:00 UTC");
  EXPECT_THAT(problem(orders("window: { allow: \"08:00-18:00\", zone: Nowhere }")),
              HasSubstr("3:67: queues.orders.gate.window.zone: \"Nowhere\": unknown time zone"));
}

TEST_F(ConfigGates, Breakers) {
  EXPECT_EQ(gate("breaker: {}").breaker, BreakerRules{});
  EXPECT_EQ(gate("breaker: ").breaker, BreakerRules{});
  BreakerRules rules;
  rules.wait = {minutes(5)};
  rules.only = {"Timeout*"};
  EXPECT_EQ(gate("breaker: { wait: 5m, only: Timeout* }").breaker, rules);
  EXPECT_EQ(gate("breaker: { of_last: 20 }").breaker->of_last, 20);
  EXPECT_EQ(gate("breaker: { probe_timeout: 1d, probes: 100, close_after: 1000 }").breaker->probe_timeout,
            hours(24));
}

TEST_F(ConfigGates, RetryAfter) {
  EXPECT_EQ(gate("retry_after: { cap: 6h }").retry_after, (RetryAfterRules{hours(6), false}));
  EXPECT_EQ(gate("retry_after: { pauses: queue }").retry_after, (RetryAfterRules{{}, true, minutes(10)}));
  EXPECT_EQ(gate("retry_after: { pauses: queue, max: 1h }").retry_after,
            (RetryAfterRules{{}, true, hours(1)}));
}

TEST_F(ConfigGates, AQueueTakesTheKeysThatItLeavesOutFromTheDefaults) {
  const Config config = good(kServers + R"(defaults:
  success: { reported_within: 5m }
  gate: { rate: 100/s, window: { allow: "08:00-18:00", zone: Europe/Berlin }, breaker: { wait: 1m }, retry_after: { cap: 1h } }
queues:
  orders: { gate: { rate: 5/s, window: { allow: "22:00-06:00" }, breaker: { probes: 2 }, retry_after: { pauses: queue } } }
  mails: {}
  a.gate.b: { gate: { rate: 3/s } }
)");
  const GateRules& orders = config.rules->queue("orders").gate;
  EXPECT_EQ(orders.rate, 5);
  EXPECT_EQ(orders.window->describe(), "22:00-06:00 Europe/Berlin");
  EXPECT_EQ(orders.breaker->wait, std::vector<Ms>{minutes(1)});
  EXPECT_EQ(orders.breaker->probes, 2);
  EXPECT_EQ(orders.retry_after, (RetryAfterRules{hours(1), true}));
  EXPECT_EQ(config.rules->queue("mails").gate, config.rules->defaults().gate);
  EXPECT_EQ(config.rules->queue("elsewhere").gate.rate, 100);
  EXPECT_EQ(config.rules->queue("a.gate.b").gate.rate, 3);
}

TEST_F(ConfigGates, WarnsWhereSilenceIsTheOnlyAnswer) {
  EXPECT_THAT(warnings(kServers + "queues:\n  orders: { gate: { breaker: {} } }\n"),
              ElementsAre("4: queues.orders.gate.breaker: a delivery without an answer for 10m counts as a "
                          "success: set success.reported_within if consumers report their results"));
  EXPECT_THAT(warnings(kServers + orders("breaker: {}")), ElementsAre());
  EXPECT_THAT(warnings(kServers + orders("rate: 5/s, retry_after: { pauses: queue }")), ElementsAre());
  // Once, and for a queue whose own silence makes it so.
  EXPECT_THAT(warnings(kServers + "defaults: { gate: { breaker: {} } }\nqueues: { orders: {}, mails: {} }\n"),
              ElementsAre(HasSubstr("defaults.gate.breaker")));
  EXPECT_THAT(
      warnings(kServers + "defaults: { gate: { breaker: {} }, success: { reported_within: 5m } }\n"
                          "queues: { orders: { success: { presumed_after: 1h } }, mails: {} }\n"),
      ElementsAre(HasSubstr("queues.orders.gate.breaker: a delivery without an answer for 1h counts")));
}

TEST_F(ConfigGates, CheckPrintsThem) {
  const std::string text = describe(good(kServers + R"(defaults: { gate: { rate: 90/m } }
queues:
  orders: { gate: { rate_by: { header: tenant, rate: 7/h }, window: { allow: "mon-fri 8:00-18:00", zone: Europe/Berlin } } }
  mails: { gate: { breaker: { wait: 1m, probes: 2 }, retry_after: { pauses: queue, cap: 1h } } }
)"));
  EXPECT_THAT(
      text,
      HasSubstr("  rate 90/m; breaker 20 of 100; retry-after at most 1h; retry-after holds the queue\n"));
  EXPECT_THAT(text,
              HasSubstr("  rate 90/m, rate 7/h for each tenant; window Mon-Fri 08:00-18:00 Europe/Berlin\n"));
  EXPECT_THAT(text, HasSubstr("  keep    rate 90/m\n"));
  EXPECT_THAT(describe(good(kServers)), Not(HasSubstr("gates")));
}

}  // namespace
}  // namespace rung
