// Which rule matches a failure.
#include "src/core/rules/failure_rules.h"

#include <gmock/gmock.h>

#include "tests/unit/core/rules_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using Kind = RuleAction::Kind;

// The number of the rule that matches, from 1; 0 = none.
std::size_t matched(const FailureRules& rules, const FailureCase& failure) {
  const auto match = rules.match(failure);
  if (match.rule == nullptr) return 0;
  EXPECT_EQ(why_not(*match.rule, failure), "");
  return static_cast<std::size_t>(match.rule - rules.rules().data()) + 1;
}

FailureCase with_type(std::string_view type, std::string_view error = "boom") {
  FailureCase failure;
  failure.queue = "orders";
  failure.type = type;
  failure.error = error;
  failure.reason = "rejected";
  return failure;
}

// ---- one condition each

TEST(RuleRegex, NeedsSlashesAndAValidExpression) {
  EXPECT_EQ(regex("/a|b/").pattern, "a|b");
  EXPECT_FALSE(regex("/a/").ignore_case);
  EXPECT_TRUE(regex("/a/i").ignore_case);
  EXPECT_EQ(regex("/a/b/").pattern, "a/b") << "a slash within needs no escape";
  EXPECT_EQ(regex("/^([a-z]+)(x)/").groups, 2);
  for (const auto* bad : {"", "/", "//", "a", "/a", "a/", "/a/g", "/a/ii"})
    EXPECT_FALSE(parse_rule_regex(bad)) << bad;
  EXPECT_THAT(parse_rule_regex("/(/").error().message, HasSubstr("missing"));
  EXPECT_FALSE(parse_rule_regex("/(?=a)/")) << "no look-ahead: it cannot be matched in linear time";
}

TEST(RuleRegex, OneThatIsTooLargeIsRefused) {
  const auto large = parse_rule_regex("/E0\\pL{0,900}boom/");
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, HasSubstr("too large"));
  EXPECT_TRUE(parse_rule_regex("/E0.{0,900}boom/"));
}

TEST(FailureRules, MatchErrorsAnywhereAcrossLines) {
  const auto rules = list({rule(error("/HTTP 429|rate limit/i"), snooze(minutes(5))),
                           rule(error("/first.*last/"), action(Kind::park)), rule(error("/^exact$/"), {})});
  EXPECT_EQ(matched(rules, with_type("", "got http 429 from stripe")), 1u);
  EXPECT_EQ(matched(rules, with_type("", "first line\nlast line")), 2u);
  EXPECT_EQ(matched(rules, with_type("", "exact")), 3u);
  EXPECT_EQ(matched(rules, with_type("", "not exact")), 0u);
  EXPECT_EQ(matched(rules, with_type("", "HTTP 42")), 0u);
}

TEST(FailureRules, MatchWhatIsKnownOfTheTask) {
  RuleConditions reason, header, tag, queue, attempts, age;
  reason.reasons = {"expired", "maxlen"};
  header.headers = {{"tier", "gold"}};
  tag.tags = {"invoice.*"};
  queue.queues = {"eu.*"};
  attempts.attempts_above = 3;
  age.age_above = hours(1);
  const auto rules = list({rule(reason, {}), rule(header, {}), rule(tag, {}), rule(queue, {}),
                           rule(attempts, {}), rule(age, {})});
  FailureCase failure = with_type("E");
  EXPECT_EQ(matched(rules, failure), 0u);
  failure.age = hours(1) + Ms{1};
  EXPECT_EQ(matched(rules, failure), 6u);
  failure.attempts = 3;
  EXPECT_EQ(matched(rules, failure), 6u);
  failure.attempts = 4;
  EXPECT_EQ(matched(rules, failure), 5u);
  failure.queue = "eu.orders";
  EXPECT_EQ(matched(rules, failure), 4u);
  failure.tag = "invoice.paid";
  EXPECT_EQ(matched(rules, failure), 3u);
  const RuleHeaders silver{{"tier", "silver"}}, gold{{"tier", "gold"}};
  failure.headers = &silver;
  EXPECT_EQ(matched(rules, failure), 3u);
  failure.headers = &gold;
  EXPECT_EQ(matched(rules, failure), 2u);
  failure.reason = "maxlen";
  EXPECT_EQ(matched(rules, failure), 1u);
  // An empty header is there, too.
  RuleConditions any;
  any.headers = {{"tier", "*"}};
  const RuleHeaders none, empty{{"tier", ""}};
  failure.headers = &none;
  EXPECT_EQ(matched(list({rule(any, {})}), failure), 0u);
  failure.headers = &empty;
  EXPECT_EQ(matched(list({rule(any, {})}), failure), 1u);
}

TEST(FailureRules, AllConditionsMustHoldAndTheFirstRuleWins) {
  RuleConditions both = type({"TimeoutError"});
  both.attempts_above = 3;
  const auto rules = list({rule(both, action(Kind::park)), rule(type({"TimeoutError"}), snooze(minutes(1))),
                           rule({}, action(Kind::discard))});
  FailureCase failure = with_type("TimeoutError");
  EXPECT_EQ(matched(rules, failure), 2u);
  failure.attempts = 4;
  EXPECT_EQ(matched(rules, failure), 1u);
  EXPECT_EQ(matched(rules, with_type("Other")), 3u) << "no conditions: every failure";
}

TEST(FailureRules, FindTheTypeInTheErrorText) {
  const auto rules =
      list({rule(type({"*Error"}), action(Kind::park), regex("/^([A-Za-z.]+Error):/")), rule({}, {})});
  const auto found = rules.match(with_type("", "app.ValidationError: no such sku"));
  ASSERT_NE(found.rule, nullptr);
  EXPECT_EQ(found.rule->name, "list[1]");
  EXPECT_EQ(found.type, "app.ValidationError");
  EXPECT_EQ(rules.match(with_type("Said", "app.ValidationError: x")).type, "Said")
      << "the consumer's word wins";
  EXPECT_EQ(rules.match(with_type("", "nothing there")).rule->name, "list[2]");
}

TEST(FailureRules, SeeWhichRulesNeverMatch) {
  RuleConditions gold_timeout = type({"TimeoutError"}), late = type({"TimeoutError"}), later = late;
  gold_timeout.headers = {{"tier", "gold"}};
  late.attempts_above = 3;
  later.attempts_above = 5;
  const auto pairs = [](std::vector<FailureRule> rules) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (const auto& [rule, by] : shadowed(rules)) out.emplace_back(rule, by);
    return out;
  };
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(pairs({rule({}, {}), rule(type({"A"}), {})}), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs({rule(type({"*Error"}), {}), rule(gold_timeout, {})}), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs({rule(gold_timeout, {}), rule(type({"*Error"}), {})}), Pairs{});
  EXPECT_EQ(pairs({rule(late, {}), rule(later, {})}), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs({rule(later, {}), rule(late, {})}), Pairs{});
  EXPECT_EQ(pairs({rule(error("/a/"), {}), rule(error("/a/"), {})}), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs({rule(error("/a/"), {}), rule(error("/ab/"), {})}), Pairs{})
      << "expressions are not compared";
  EXPECT_EQ(pairs({rule(type({"A"}), {}, regex("/(A)/")), rule(type({"A"}), {})}), Pairs{});
  RuleConditions gold, silver;
  gold.headers = {{"tier", "gold"}};
  silver.headers = {{"tier", "silver"}};
  EXPECT_EQ(pairs({rule(gold, {}), rule(gold, {})}), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs({rule(gold, {}), rule(silver, {})}), Pairs{});
}

}  // namespace
}  // namespace rung
