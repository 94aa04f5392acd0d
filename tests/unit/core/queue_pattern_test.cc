// Patterns for queue names, and which entry of `queues:` a queue follows.
#include "src/core/base/queue_pattern.h"

#include <gtest/gtest.h>

#include "src/core/rules/policy.h"

namespace rung {
namespace {

bool is_match(const std::string& pattern, const std::string& name) {
  return QueuePattern(pattern).matches(name);
}

TEST(QueuePattern, Wildcards) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"orders.*", "orders.eu"},
                                                        {"orders.*", "orders."},
                                                        {"*", "x"},
                                                        {"*", ""},
                                                        {"*.eu", "orders.eu"},
                                                        {"a*b*c", "a-b-b-c"},
                                                        {"orders.?", "orders.1"},
                                                        {"orders.?", "orders.ä"},
                                                        {"shard-[0-9]", "shard-7"},
                                                        {"shard-[!0-9]", "shard-x"},
                                                        {"[a-cx]", "x"},
                                                        {"[]]*", "]1"},
                                                        {"[ä-ü]", "ö"},
                                                        {"[a-z-9]", "-"},
                                                        {"[a-]", "-"},
                                                        {"[^a]", "^"},
                                                        {"**", "anything"}})
    EXPECT_TRUE(is_match(pattern, name)) << pattern << " " << name;
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"orders.*", "orders"},
                                                        {"orders.*", "my-orders.eu"},
                                                        {"orders.?", "orders."},
                                                        {"orders.?", "orders.12"},
                                                        {"shard-[0-9]", "shard-x"},
                                                        {"shard-[!0-9]", "shard-1"},
                                                        {"*.eu", "orders.eu2"},
                                                        {"a*b", "a"},
                                                        {"[z-a]", "b"},
                                                        {"a.*", "abc"},
                                                        {"ab*ba", "aba"}})
    EXPECT_FALSE(is_match(pattern, name)) << pattern << " " << name;
}

TEST(QueuePattern, AClassOfOneCharacterStandsForIt) {
  EXPECT_EQ(QueuePattern("orders[*]").only_name(), "orders*");
  EXPECT_EQ(QueuePattern("a[?]b[[]c").only_name(), "a?b[c");
  EXPECT_EQ(QueuePattern("orders").only_name(), "orders");
  EXPECT_EQ(QueuePattern("App\\Jobs\\Send").only_name(), "App\\Jobs\\Send") << "no other escapes";
  EXPECT_EQ(QueuePattern("open[bracket").only_name(), "open[bracket");
  EXPECT_EQ(QueuePattern("orders.*").only_name(), std::nullopt);
  EXPECT_TRUE(is_match("[*]*", "*x"));
  EXPECT_FALSE(is_match("[*]*", "x"));
}

// Strangers choose the names.
TEST(QueuePattern, NoNameTakesLong) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  pattern += "*[b-c]?";  // no literal end by which to refuse the name at once
  const std::string name(255, 'a');
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(is_match(pattern, name));
}

RuleBook book(const std::vector<std::string>& names, const std::vector<std::string>& patterns) {
  RuleBook::Queues queues;
  for (const std::string& name : names) queues[name].ladder = name;
  RuleBook::Patterns by_pattern;
  for (const std::string& text : patterns) {
    by_pattern.push_back({QueuePattern(text), {}});
    by_pattern.back().rules.ladder = text;
  }
  RuleBook::Ladders ladders{{"default", levels::Ladder::from_list({Ms{1000}}).value()}};
  return {std::move(ladders), queues, {}, {}, {}, {}, std::make_shared<const ErrorQueues>(), by_pattern};
}

TEST(RuleBook, TheExactNameWinsThenTheLongestPattern) {
  const RuleBook rules = book({"orders.eu"}, {"*", "orders.*", "orders.e?", "orders.?u"});
  EXPECT_EQ(rules.queue("orders.eu").ladder, "orders.eu");
  EXPECT_EQ(rules.queue("orders.es").ladder, "orders.e?");
  EXPECT_EQ(rules.queue("orders.au").ladder, "orders.?u");
  EXPECT_EQ(rules.queue("orders.us").ladder, "orders.*");
  EXPECT_EQ(rules.queue("invoices").ladder, "*");
  EXPECT_EQ(rules.pattern_of("orders.eu"), nullptr);
  EXPECT_EQ(rules.pattern_of("orders.us")->pattern.text(), "orders.*");
}

TEST(RuleBook, AQueueThatIsCalledLikeAPatternFollowsIt) {
  const RuleBook rules = book({}, {"List[[Order]]", "*", "a-much-longer-*-pattern"});
  EXPECT_EQ(rules.queue("List[[Order]]").ladder, "List[[Order]]");
  EXPECT_EQ(rules.queue("other").ladder, "*");
}

TEST(RuleBook, WatchesWhatMatchesAPatternExceptErrorQueues) {
  const RuleBook rules = book({"orders.eu"}, {"orders.*", "amq.*"});
  EXPECT_TRUE(rules.watches("orders.us"));
  EXPECT_TRUE(rules.watches("orders.dead"));
  for (const char* name : {"invoices", "orders.eu", "amq.gen-7"}) EXPECT_FALSE(rules.watches(name)) << name;
  const auto errors = std::make_shared<const ErrorQueues>(std::vector{ErrorQueue{.from = "*.dead"}});
  EXPECT_TRUE(rules.with_error_queues(errors)->watches("orders.us"));
  EXPECT_FALSE(rules.with_error_queues(errors)->watches("orders.dead"))
      << "its messages are taken in from there, not by dead-lettering them";
}

TEST(TargetRules, QueuesThatMatchAPatternOfTheConfigAreAllowed) {
  TargetRules rules;
  rules.own = "rung.";
  rules.allow.emplace();
  rules.configured_patterns = {QueuePattern("orders.*"), QueuePattern("*.eu")};
  EXPECT_TRUE(rules.allows("orders.us"));
  EXPECT_TRUE(rules.allows("invoices.eu"));
  EXPECT_FALSE(rules.allows("invoices"));
  EXPECT_FALSE(rules.allows("rung.failed.eu"));
  EXPECT_FALSE(rules.allows("amq.gen.eu"))
      << "only a pattern that begins with amq. allows the broker's names";
  rules.deny = {"orders.us"};
  EXPECT_FALSE(rules.allows("orders.us"));
}

}  // namespace
}  // namespace rung
