// Rules by kind of failure and give_up, as users write them.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConfigPolicies : public ConfigTest {
 protected:
  // The only error of a list with this rule.
  std::string of_rule(const std::string& rule) const {
    return problem("rules:\n  list:\n    - " + rule + "\nqueues: { orders: { rules: list } }\n");
  }
};

// The example of docs/policies.md.
TEST_F(ConfigPolicies, TheExample) {
  const Config config = good(kServers + R"(rules:
  payments:
    - { when: { type: [ValidationError, "*.JsonException"] }, then: park }
    - { when: { error: "/HTTP 429|rate limit/i" },            then: { snooze: 5m } }
    - { when: { reason: expired },                            then: discard }
    - { when: { header: { tier: gold } },                     then: { ladder: quick } }
    - { when: { attempts_above: 3, type: TimeoutError },      then: { ladder: patient } }
queues:
  orders: { ladder: default, rules: payments, give_up: { attempts: 12, after: 3d } }
  mails: {}
)");
  EXPECT_EQ(config.rules->queue("orders").rules, "payments");
  EXPECT_EQ(config.rules->queue("mails").rules, "");
  EXPECT_EQ(config.rules->queue("orders").give_up, (GiveUp{12, std::chrono::hours{72}}));
  EXPECT_EQ(config.rules->failure_rules("mails"), nullptr);
  ASSERT_NE(config.rules->failure_rules("orders"), nullptr);
  const auto& rules = config.rules->failure_rules("orders")->rules();
  ASSERT_EQ(rules.size(), 5U);
  EXPECT_THAT(rules[0].when.types, ElementsAre("ValidationError", "*.JsonException"));
  EXPECT_EQ(rules[0].name, "payments[1]");
  EXPECT_EQ(describe(rules[1].then), "snooze 5m");
  EXPECT_EQ(describe(rules[4].then), "retry, ladder patient");
  EXPECT_THAT(config.rules->rule_headers(), ElementsAre("tier"));
}

TEST_F(ConfigPolicies, DefaultsAreInherited) {
  const Config config = good(kServers + R"(rules: { all: [{ then: park }], none: [{ then: retry }] }
defaults: { rules: all, give_up: { attempts: 5 } }
queues: { orders: { rules: none, give_up: { after: 1h } }, mails: {} }
)");
  EXPECT_EQ(config.rules->queue("elsewhere").rules, "all");
  EXPECT_EQ(config.rules->queue("mails").rules, "all");
  EXPECT_EQ(config.rules->queue("orders").rules, "none");
  EXPECT_EQ(config.rules->queue("orders").give_up, (GiveUp{5, std::chrono::hours{1}}));
}

TEST_F(ConfigPolicies, ValuesFromTheEnvironmentAreNotShown) {
  env("RUNG_TEST_VALUE", "patian(t");
  EXPECT_THAT(of_rule("{ when: { error: \"/${RUNG_TEST_VALUE}/\" }, then: park }"),
              testing::AllOf(HasSubstr("is not a regular expression"), testing::Not(HasSubstr("patian"))));
  env("RUNG_TEST_LADDER", "patiant");
  EXPECT_THAT(of_rule("{ then: { ladder: \"${RUNG_TEST_LADDER}\" } }"),
              testing::AllOf(HasSubstr("unknown ladder"), testing::Not(HasSubstr("patiant"))));
}

TEST_F(ConfigPolicies, WarnsOfWhatCanNeverMatch) {
  EXPECT_THAT(
      warnings(kServers + R"(rules:
  list:
    - { when: { type: "*Error" }, then: park }
    - { when: { type: TimeoutError, attempts_above: 3 }, then: discard }
    - { when: { queue: mails }, then: discard }
  unused: [{ then: park }]
queues: { orders: { rules: list } }
)"),
      ElementsAre("6: rules.list[2]: never matches, because rule 1 matches all of its failures first",
                  "7: rules.list[3].when.queue: never matches: no queue with these rules has such a name",
                  "8: rules.unused: not used: write rules: unused at a queue, or under defaults"));
}

TEST_F(ConfigPolicies, APromiseOfLateness) {
  using std::chrono::seconds;
  const Config config = good(kServers + R"(defaults: { late_by: 1m }
queues: { orders: { late_by: 30s }, mails: {}, "shop.*": { late_by: 5s } }
)");
  EXPECT_EQ(config.rules->queue("orders").late_by, seconds{30});
  EXPECT_EQ(config.rules->queue("mails").late_by, seconds{60});
  EXPECT_EQ(config.rules->queue("shop.eu").late_by, seconds{5});
  EXPECT_EQ(config.rules->queue("elsewhere").late_by, seconds{60});
  EXPECT_THAT(describe(config), HasSubstr("at most 30s"));
}

// Any queue may be named by a rule; headers of messages may then name it, too.
TEST_F(ConfigPolicies, TheQueueOfARuleIsAnAllowedTarget) {
  const Config config = good(
      "broker: { url: \"amqp://h\", targets: { allow: [] } }\nstore: { url: \"mysql://u:p@h/s\" }\n"
      "rules: { list: [{ then: { to: slow } }] }\nqueues: { orders: { rules: list } }\n");
  EXPECT_TRUE(config.rules->targets().allows("slow"));
}

TEST_F(ConfigPolicies, AnExpressionThatIsTooLarge) {
  EXPECT_THAT(of_rule("{ when: { error: '/E0\\pL{0,900}boom/' }, then: park }"), HasSubstr("too large"));
}

TEST_F(ConfigPolicies, SnoozesInACircle) {
  const std::string circle =
      "rules:\n  there: [{ then: { snooze: 1m, to: b } }]\n  back: [{ then: { snooze: 1m, to: a } }]\n";
  // It ends.
  good(kServers + circle + "queues: { a: { rules: there, give_up: { after: 1d } }, b: { rules: back } }\n");
  good(kServers + circle + "queues: { a: { rules: there }, b: {} }\n");
  // Not a move.
  good(kServers + "rules: { all: [{ then: { snooze: 1m, to: a } }] }\nqueues: { a: { rules: all } }\n");
  // Counted.
  good(kServers +
       "rules:\n  there: [{ then: { to: b } }]\n  back: [{ then: { to: a } }]\n"
       "queues: { a: { rules: there }, b: { rules: back } }\n");
}

TEST_F(ConfigPolicies, SnoozesThatMayMoveInACircle) {
  const std::string rules =
      "rules:\n  all:\n    - { when: { type: X, queue: a }, then: { snooze: 1m, to: b } }\n"
      "    - { when: { queue: b }, then: { snooze: 1m, to: c } }\n"
      "    - { when: { queue: c }, then: { snooze: 1m, to: a } }\n";
  good(kServers + rules + "defaults: { rules: all }\n");
  EXPECT_THAT(warnings(kServers + rules + "defaults: { rules: all }\n"),
              ElementsAre(testing::AllOf(HasSubstr("a -> b -> c -> a"), HasSubstr("after 100"))));
  EXPECT_THAT(warnings(kServers + rules + "defaults: { rules: all, give_up: { after: 1d } }\n"),
              testing::IsEmpty());
}

}  // namespace
}  // namespace rung
