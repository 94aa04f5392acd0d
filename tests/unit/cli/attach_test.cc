// What attach works out and quotes; the servers come in tests/integration/cli.
#include "src/sidecar/attach.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "plugin/rabbitmq/topology/attachment.h"
#include "tests/support/program.h"

namespace rung::cli {
namespace {

using nlohmann::json;
using rabbit::Policy;
using ::testing::HasSubstr;

// Every byte that can stand in a name but NUL, CR and LF (which RabbitMQ takes off), alone and among others.
std::vector<std::string> odd_names() {
  std::vector<std::string> names = {"orders",      "o'd d/é$(x)\\\"#^.*\tz`!",
                                    "-p",          "--help",
                                    "~root",       "a b",
                                    "*",           "'",
                                    "''",          "注文",
                                    "$HOME",       "!!",
                                    "a;b|c&d>e<f", "{a,b}",
                                    "[x]",         "\x01\x1f\x7f",
                                    "\\",          "\\'"};
  std::string all;
  for (int c = 1; c < 128; ++c) {
    if (c == '\r' || c == '\n') continue;
    all += static_cast<char>(c);
    names.push_back("x" + std::string(1, static_cast<char>(c)) + "1");
  }
  names.push_back(all);
  return names;
}

// bash itself says what it understands.
TEST(ShellQuote, BashReadsBackWhatWasQuoted) {
  std::string script;
  for (const std::string& name : odd_names()) script += "printf '%s\\0' " + rabbit::shell_quote(name) + "\n";
  script += "printf '%s\\0' " + rabbit::shell_quote("") + "\n" + "printf '%s\\0' " +
            rabbit::shell_quote("a\nb\r") + "\n";
  const auto ran = run_program({"bash", "--norc", "-c", script});
  std::string expected;
  for (const std::string& name : odd_names()) expected += name + '\0';
  expected += '\0';
  expected += std::string("a\nb\r") + '\0';
  EXPECT_EQ(ran.out, expected);
  EXPECT_EQ(ran.err, "");
}

TEST(PolicyPattern, MatchesTheNameAlone) {
  EXPECT_EQ(rabbit::policy_pattern("orders.v2"), "^orders\\.v2$");
  for (const std::string& name : odd_names()) {
    const std::regex pattern(rabbit::policy_pattern(name));
    EXPECT_TRUE(std::regex_search(name, pattern)) << name;
    EXPECT_FALSE(std::regex_search(name + "x", pattern)) << name;
    EXPECT_FALSE(std::regex_search("x" + name, pattern)) << name;
  }
  EXPECT_FALSE(std::regex_search("ordersXv2", std::regex(rabbit::policy_pattern("orders.v2"))));
}

TEST(PolicyCommand, IsTheLineThatDoesIt) {
  EXPECT_EQ(rabbit::policy_command("rung", "/", "orders"),
            "rabbitmqctl set_policy -p / --apply-to queues rung-orders '^orders$' "
            "'{\"dead-letter-exchange\":\"rung.failed\"}'");
  EXPECT_THAT(rabbit::policy_command("rung", "-v", "orders"), HasSubstr(" --vhost=-v "));
  EXPECT_THAT(rabbit::policy_command("rung", "/", "é"), ::testing::StartsWith("LC_ALL=C.UTF-8 rabbitmqctl "));
}

// <prefix>.failed with its binding, and nothing else.
rabbit::DeadLetterRoutes own_routes(const std::string& prefix) {
  const std::string ours = rabbit::failed_exchange(prefix);
  rabbit::DeadLetterRoutes routes;
  routes.add_exchange(ours, "fanout");
  routes.add_exchange("", "direct");
  routes.add_binding({"", ours}, "");
  routes.add_binding({ours, ""}, "");
  return routes;
}

sidecar::AttachPlan planned(const std::string& prefix, rabbit::QueueFacts facts,
                            const std::vector<Policy>& policies) {
  facts.name = "orders";
  BrokerOptions broker;
  broker.prefix = prefix;
  return sidecar::plan_attach(broker, facts, {prefix, {}, policies, own_routes(prefix)});
}

TEST(Plan, TakesOverThePolicyInEffect) {
  const std::vector<Policy> policies = {
      {"other", "^x", "queues", R"({"max-length":1})"_json, 9},
      {"base", "^o", "all", R"({"max-length":100,"dead-letter-exchange":"dlx"})"_json, 7}};
  const sidecar::AttachPlan plan = planned("rung", {std::nullopt, "base", "classic"}, policies);
  EXPECT_TRUE(plan.policy);
  EXPECT_EQ(plan.policy->priority, 8);
  EXPECT_EQ(plan.policy->definition, (json{{"dead-letter-exchange", "rung.failed"}, {"max-length", 100}}));
  EXPECT_EQ(plan.overridden, "base");
  EXPECT_EQ(plan.previous_exchange, "dlx");
}

TEST(Plan, MendsOurOwnPolicyInItsPlace) {
  const std::vector<Policy> policies = {{"rung-orders", "^orders$", "queues", R"({"max-length":1})"_json, 3}};
  const sidecar::AttachPlan plan = planned("rung", {std::nullopt, "rung-orders", ""}, policies);
  EXPECT_TRUE(plan.policy);
  EXPECT_EQ(plan.policy->priority, 3);
  EXPECT_EQ(plan.overridden, "");
}

TEST(Plan, KnowsWhatIsAttached) {
  const std::vector<Policy> policies = {
      {"all", ".*", "queues", R"({"dead-letter-exchange":"rung.failed"})"_json, 0}};
  const sidecar::AttachPlan by_policy = planned("rung", {std::nullopt, "all", ""}, policies);
  EXPECT_FALSE(by_policy.policy);
  EXPECT_EQ(describe(by_policy.answer), "policy all");
  EXPECT_FALSE(planned("rung", {"rung.failed", "", ""}, {}).policy);
  // Another prefix is somebody else's.
  EXPECT_TRUE(planned("other", {std::nullopt, "all", ""}, policies).policy);
}

TEST(Plan, ArgumentsWinOverPolicies) {
  const std::vector<Policy> policies = {
      {"all", ".*", "queues", R"({"dead-letter-exchange":"rung.failed"})"_json, 0}};
  const sidecar::AttachPlan plan = planned("rung", {"dlx", "all", ""}, policies);
  EXPECT_NE(plan.refusal, "");
  EXPECT_THAT(plan.refusal, HasSubstr("'dlx'"));
  EXPECT_THAT(plan.refusal, HasSubstr("overrides any policy"));
  // The empty name is the default exchange: an argument like any other.
  EXPECT_NE(planned("rung", {"", "", ""}, {}).refusal, "");
  // A binding attaches it instead, which the default exchange cannot have.
  EXPECT_EQ(plan.command,
            "rabbitmqadmin -V / declare binding source=dlx destination_type=queue destination=rung.failed "
            "routing_key='#'");
  EXPECT_EQ(planned("rung", {"", "", ""}, {}).command,
            "redeclare it with x-dead-letter-exchange: rung.failed");
  EXPECT_EQ(planned("rung", {std::nullopt, "", "stream"}, {}).command, "");
  EXPECT_EQ(planned("rung", {}, {}).command, "rung attach orders");
  EXPECT_NE(planned("rung", {std::nullopt, "", "stream"}, {}).refusal, "");
}

TEST(Plan, CopiesThePolicyAnewThatItHasCopied) {
  const auto refreshed = [](const json& base, int priority) {
    const std::vector<Policy> policies = {
        {"rung-orders", "^orders$", "queues", R"({"dead-letter-exchange":"rung.failed","max-length":5})"_json,
         3},
        {"lower", ".*", "all", R"({"max-length":1})"_json, 1},
        {"base", "^o", "queues", base, priority}};
    return planned("rung", {std::nullopt, "rung-orders", "classic"}, policies);
  };
  EXPECT_FALSE(refreshed({{"max-length", 5}}, 2).policy);
  const sidecar::AttachPlan changed = refreshed({{"max-length", 6}, {"message-ttl", 1}}, 2);
  ASSERT_TRUE(changed.policy);
  EXPECT_EQ(changed.drift,
            "policy rung-orders differs from policy base, which it copies: max-length is 6 there and 5 here, "
            "message-ttl is only there");
  EXPECT_EQ(changed.policy->definition,
            (json{{"dead-letter-exchange", "rung.failed"}, {"max-length", 6}, {"message-ttl", 1}}));
  EXPECT_EQ(changed.policy->priority, 3);
  EXPECT_EQ(refreshed({{"max-length", 5}}, 3).policy->priority, 4);
  EXPECT_THAT(refreshed(json::object(), 2).drift, HasSubstr("max-length is only here"));
}

TEST(Routes, FollowBindingsToRungFailed) {
  using Reach = rabbit::DeadLetterRoutes::Reach;
  rabbit::DeadLetterRoutes routes = own_routes("rung");
  for (const auto& [name, type] : std::map<std::string, std::string>{{"fan", "fanout"},
                                                                     {"direct", "direct"},
                                                                     {"topic", "topic"},
                                                                     {"headers", "headers"},
                                                                     {"outer", "topic"},
                                                                     {"plugin", "x-random"},
                                                                     {"all", "topic"},
                                                                     {"any", "headers"},
                                                                     {"round", "fanout"}})
    routes.add_exchange(name, type);
  routes.add_binding({"fan", "x"}, "");
  routes.add_binding({"direct", "dead"}, "");
  routes.add_binding({"topic", "shop.*.dead"}, "");
  routes.add_binding({"headers", "", R"({"x-match":"all","tier":"gold"})"_json}, "");
  routes.add_binding({"any", "", R"({"x-match":"all"})"_json}, "");
  routes.add_binding({"plugin", ""}, "");
  routes.add_binding({"all", "#"}, "");
  routes.add_binding({"outer", "a.#"}, "direct");
  routes.add_binding({"round", ""}, "round");
  EXPECT_EQ(routes.reach("rung.failed", "anything"), Reach::all);
  EXPECT_EQ(routes.reach("fan", {}), Reach::all);
  EXPECT_EQ(routes.reach("direct", "dead"), Reach::all);
  EXPECT_EQ(routes.reach("direct", "other"), Reach::no);
  EXPECT_EQ(routes.reach("direct", {}), Reach::some);
  EXPECT_EQ(routes.reach("topic", "shop.eu.dead"), Reach::all);
  EXPECT_EQ(routes.reach("topic", "shop.dead"), Reach::no);
  EXPECT_EQ(routes.reach("headers", "k"), Reach::some);
  EXPECT_EQ(routes.reach("any", "k"), Reach::all);
  EXPECT_EQ(routes.reach("plugin", "k"), Reach::some);
  EXPECT_EQ(routes.reach("all", {}), Reach::all);
  EXPECT_EQ(routes.reach("outer", "a.b"), Reach::no) << "outer takes it, direct does not";
  EXPECT_EQ(routes.reach("outer", {}), Reach::some);
  EXPECT_EQ(routes.reach("round", {}), Reach::no);
  EXPECT_EQ(routes.reach("unknown", {}), Reach::no);
  EXPECT_EQ(routes.reach("", "rung.failed"), Reach::all) << "the default exchange, by the queue's name";
  EXPECT_EQ(routes.reach("", "other"), Reach::no);
}

TEST(Routes, TopicPatterns) {
  const auto matches = [](const char* pattern, const char* key) {
    return rabbit::matches_topic(pattern, key);
  };
  EXPECT_TRUE(matches("#", ""));
  EXPECT_TRUE(matches("#", "a.b.c"));
  EXPECT_TRUE(matches("a.#", "a"));
  EXPECT_TRUE(matches("a.#.c", "a.c"));
  EXPECT_TRUE(matches("a.#.c", "a.b.b.c"));
  EXPECT_TRUE(matches("*.*", "a.b"));
  EXPECT_FALSE(matches("*", "a.b"));
  EXPECT_FALSE(matches("*", ""));
  EXPECT_FALSE(matches("a.b", "a"));
  EXPECT_TRUE(matches("#.#.#", "a"));
}

}  // namespace
}  // namespace rung::cli
