// What others can set on Rung's own queues and exchanges: which of it harms, and the command that mends it.
#include "plugin/rabbitmq/topology/own_settings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace rung::rabbit {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OwnObject queue(const json& definition = json::object(), const json& arguments = json::object(),
                const std::string& type = "classic") {
  OwnObject object;
  object.name = "rung.failed";
  object.type = type;
  object.arguments = arguments.dump();
  object.definition = definition.dump();
  if (!definition.empty()) object.policy = "all";
  return object;
}
OwnObject exchange(const std::string& name, const json& definition, const json& arguments = json::object()) {
  OwnObject object;
  object.is_queue = false;
  object.name = name;
  object.definition = definition.dump();
  object.arguments = arguments.dump();
  object.policy = "all";
  return object;
}
std::vector<SettingFinding> judge(const OwnObject& object) {
  OwnState state;
  state.objects = {object};
  return judge_settings("rung", object.type == "quorum" ? "quorum" : "classic", state);
}
Harm worst(const OwnObject& object) {
  const auto found = judge(object);
  return found.empty() ? Harm::safe : found.front().harm;
}

TEST(OwnSettings, KnowEveryPolicyKeyOfTheBrokersOnce) {
  // `rabbitmq-diagnostics` has no list: from the sources of RabbitMQ 3.10.8, 3.13.7, 4.0.5 and 4.3.5.
  constexpr const char* kKeys[] = {"alternate-exchange",
                                   "consumer-disconnected-timeout",
                                   "consumer-timeout",
                                   "dead-letter-exchange",
                                   "dead-letter-routing-key",
                                   "dead-letter-strategy",
                                   "delayed-retry-max",
                                   "delayed-retry-min",
                                   "delayed-retry-type",
                                   "delivery-limit",
                                   "expires",
                                   "federation-upstream",
                                   "federation-upstream-pattern",
                                   "federation-upstream-set",
                                   "ha-mode",
                                   "ha-params",
                                   "ha-promote-on-failure",
                                   "ha-promote-on-shutdown",
                                   "ha-sync-batch-size",
                                   "ha-sync-mode",
                                   "initial-cluster-size",
                                   "max-age",
                                   "max-in-memory-bytes",
                                   "max-in-memory-length",
                                   "max-length",
                                   "max-length-bytes",
                                   "message-ttl",
                                   "overflow",
                                   "queue-leader-locator",
                                   "queue-master-locator",
                                   "queue-mode",
                                   "queue-version",
                                   "routing-key",
                                   "shards-per-node",
                                   "stream-filter-size-bytes",
                                   "stream-max-segment-size-bytes",
                                   "target-group-size"};
  std::set<std::string_view> known;
  for (const SettingRule& rule : setting_rules()) {
    EXPECT_TRUE(known.insert(rule.key).second) << rule.key;
    EXPECT_NE(rule.why, "") << rule.key;
  }
  for (const char* key : kKeys) EXPECT_TRUE(known.contains(key)) << key;
}

TEST(OwnSettings, ThatLoseMessagesAreFatal) {
  const json settings = {{"message-ttl", 5000},
                         {"expires", 60000},
                         {"max-length", 10},
                         {"max-length-bytes", 10},
                         {"federation-upstream-set", "all"}};
  for (const auto& [key, value] : settings.items()) {
    const auto found = judge(queue({{key, value}}));
    ASSERT_EQ(found.size(), 1U) << key;
    EXPECT_EQ(found[0].harm, Harm::fatal) << key;
    EXPECT_EQ(found[0].subject, "rung.failed");
    EXPECT_THAT(found[0].what, HasSubstr("policy 'all' sets " + key + " to " + value.dump()));
    EXPECT_THAT(found[0].mend, HasSubstr("rabbitmqctl set_policy -p /"));
    EXPECT_THAT(found[0].mend, HasSubstr("'^rung\\.(failed|delay|results|parked)$'"));
  }
}

TEST(OwnSettings, AreOverriddenByAKeyThatTheTypeOfQueueKnows) {
  EXPECT_THAT(judge(queue({{"message-ttl", 1}}))[0].mend, HasSubstr(R"('{"max-length":2147483647}')"));
  EXPECT_THAT(judge(queue({{"delivery-limit", 1}}, json::object(), "quorum"))[0].mend,
              HasSubstr(R"('{"delivery-limit":2147483647}')"));
}

TEST(OwnSettings, ThatDoNoHarmAreNotTold) {
  EXPECT_THAT(judge(queue({{"max-length", 2147483647}})), IsEmpty()) << "what our own advice sets";
  EXPECT_THAT(judge(exchange("rung.failed", {{"message-ttl", 5000}})), IsEmpty()) << "for queues only";
  EXPECT_THAT(judge(queue()), IsEmpty());
  EXPECT_THAT(judge(queue({{"dead-letter-exchange", "x"},
                           {"queue-mode", "lazy"},
                           {"ha-mode", "all"},
                           {"overflow", "reject-publish"},
                           {"delivery-limit", 3},
                           {"consumer-timeout", 3'600'000}})),
              IsEmpty());
  EXPECT_THAT(judge(queue(json::object(), {{"x-queue-type", "classic"}})), IsEmpty());
}

TEST(OwnSettings, ADeliveryLimitBelowOursIsFatalForAQuorumQueue) {
  const json ours = {{"x-queue-type", "quorum"}, {"x-delivery-limit", 2147483647}};
  EXPECT_EQ(worst(queue(json::object(), ours, "quorum")), Harm::safe);
  EXPECT_EQ(worst(queue({{"delivery-limit", 7}}, ours, "quorum")), Harm::fatal) << "the smaller one counts";
  EXPECT_EQ(worst(queue({{"delivery-limit", -1}}, {{"x-queue-type", "quorum"}}, "quorum")), Harm::safe);
  EXPECT_EQ(worst(queue(json::object(), {{"x-queue-type", "quorum"}}, "quorum")), Harm::fatal)
      << "RabbitMQ 4 has one of 20";
}

TEST(OwnSettings, OfAnOperatorAreMendedByAnOperatorPolicy) {
  OwnObject object = queue({{"delivery-limit", 7}}, {{"x-delivery-limit", 2147483647}}, "quorum");
  object.policy.clear();
  object.operator_policy = "limits";
  const auto found = judge(object);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].what, HasSubstr("operator policy 'limits'"));
  EXPECT_THAT(found[0].mend, HasSubstr("rabbitmqctl set_operator_policy"));
}

TEST(OwnSettings, OfAnArgumentAreMendedByDeclaringItAgain) {
  const auto found = judge(queue(json::object(), {{"x-message-ttl", 1000}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].what, HasSubstr("its queue argument sets message-ttl"));
  EXPECT_THAT(found[0].mend, HasSubstr("rabbitmqctl delete_queue -p / rung.failed"));
}

TEST(OwnSettings, AnotherTypeIsHarmfulAndAStreamFatal) {
  OwnState state;
  state.objects = {queue(json::object(), {{"x-delivery-limit", 2147483647}}, "quorum")};
  auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::harmful);
  EXPECT_THAT(found[0].mend, HasSubstr("set broker.queue_type: quorum"));
  EXPECT_EQ(worst(queue(json::object(), json::object(), "stream")), Harm::fatal);
}

TEST(OwnSettings, AKeyOfALaterVersionIsTold) {
  const auto found = judge(queue({{"shiny-new-key", 1}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::harmful);
}

TEST(OwnSettings, AnAlternateExchangeIsFatalForTheReturnExchangeWithoutItsOwn) {
  const json diverted = {{"alternate-exchange", "unrouted"}};
  EXPECT_EQ(worst(exchange("rung.return", diverted)), Harm::fatal);
  EXPECT_EQ(worst(exchange("rung.return", diverted, {{"alternate-exchange", "rung.return"}})), Harm::safe);
  EXPECT_EQ(worst(exchange("rung.failed", diverted)), Harm::safe) << "its queue is always bound";
}

// RabbitMQ has one policy of a name: the advice for the exchange must not replace that for the queues.
TEST(OwnSettings, TheExchangesPolicyIsNotTheQueues) {
  EXPECT_THAT(judge(queue({{"message-ttl", 1}}))[0].mend, HasSubstr("--apply-to queues rung-own "));
  EXPECT_THAT(judge(exchange("rung.return", {{"alternate-exchange", "others"}}))[0].mend,
              HasSubstr("--apply-to exchanges rung-return "));
}

TEST(OwnSettings, AForeignBindingOfTheReturnExchangeIsFatal) {
  OwnState state;
  state.return_bindings = {{"orders", "queue", "queue:orders"}, {"spy", "queue", "order.created"}};
  const auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::fatal);
  EXPECT_EQ(found[0].subject, "rung.return");
  EXPECT_THAT(found[0].mend, HasSubstr("destination=spy"));
}

TEST(OwnSettings, LimitsOfTheVirtualHostThatRungMayReachAreHarmful) {
  OwnState state;
  state.vhost = "shop";
  state.vhost_limits = R"({"max-connections": 3, "max-queues": 5})";
  const auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 2U) << "no queue of ours exists yet";
  for (const auto& one : found) {
    EXPECT_EQ(one.harm, Harm::harmful);
    EXPECT_EQ(one.subject, "virtual host shop");
  }
}

}  // namespace
}  // namespace rung::rabbit
