// What others can set on Rung's own queues and exchanges: which of it harms, and the command that mends it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "plugin/rabbitmq/topology/attachment.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OwnState queue(const json& definition = json::object(), const json& arguments = json::object(),
               const std::string& type = "classic") {
  QueueFacts facts;
  facts.name = "rung.failed";
  facts.type = type;
  facts.arguments = arguments.dump();
  facts.effective_policy = definition.dump();
  if (!definition.empty()) facts.policy = "all";
  OwnState state;
  state.queues = {facts};
  return state;
}
OwnState exchange(const std::string& name, const json& definition, const json& arguments = json::object()) {
  OwnState state;
  state.exchanges = {{name, "direct", "all", arguments.dump()}};
  state.policies = {{"all", ".*", "all", definition.dump()}};
  return state;
}
std::vector<SettingFinding> judge(const OwnState& state) { return judge_settings("rung", "auto", state); }
std::optional<Harm> worst(const OwnState& state) {
  const auto found = judge(state);
  return found.empty() ? std::nullopt : std::optional(found.front().harm);
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
  EXPECT_EQ(worst(queue(json::object(), ours, "quorum")), std::nullopt);
  EXPECT_EQ(worst(queue({{"delivery-limit", 7}}, ours, "quorum")), Harm::fatal) << "the smaller one counts";
  EXPECT_EQ(worst(queue({{"delivery-limit", -1}}, {{"x-queue-type", "quorum"}}, "quorum")), std::nullopt);
  EXPECT_EQ(worst(queue(json::object(), {{"x-queue-type", "quorum"}}, "quorum")), Harm::fatal)
      << "RabbitMQ 4 has one of 20";
}

TEST(OwnSettings, OfAnOperatorAreMendedByAnOperatorPolicy) {
  OwnState state = queue({{"delivery-limit", 7}}, {{"x-delivery-limit", 2147483647}}, "quorum");
  state.queues[0].policy.clear();
  state.queues[0].operator_policy = "limits";
  const auto found = judge(state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].what, HasSubstr("operator policy 'limits'"));
  EXPECT_THAT(found[0].mend, HasSubstr("rabbitmqctl set_operator_policy"));
  // Beside a policy that sets something else.
  state.queues[0].policy = "all";
  state.policies = {{"all", ".*", "all", R"({"max-length": 5})"}};
  EXPECT_THAT(judge(state)[0].what, HasSubstr("operator policy 'limits'"));
  state.policies = {{"all", ".*", "all", R"({"delivery-limit": 7})"}};
  EXPECT_THAT(judge(state)[0].what, HasSubstr("policy 'all'"));
}

TEST(OwnSettings, AnotherTypeIsHarmfulAndAStreamFatal) {
  const OwnState state = queue(json::object(), {{"x-delivery-limit", 2147483647}}, "quorum");
  const auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::harmful);
  EXPECT_THAT(found[0].mend, HasSubstr("set broker.queue_type: quorum"));
  EXPECT_EQ(worst(queue(json::object(), json::object(), "stream")), Harm::fatal);
}

TEST(OwnSettings, TheLowestDeliveryLimitOfAnInlet) {
  const auto limit = [](const json& definition, const json& arguments, const std::string& type = "quorum") {
    const DeliveryLimit lowest = lowest_delivery_limit(queue(definition, arguments, type).queues);
    return lowest.queue.empty() ? -1 : lowest.deliveries;
  };
  EXPECT_EQ(limit({}, {{"x-delivery-limit", 2147483647}}), -1);
  EXPECT_EQ(limit({{"delivery-limit", 7}}, {{"x-delivery-limit", 2147483647}}), 7);
  EXPECT_EQ(limit({}, {}), 20) << "of RabbitMQ 4";
  EXPECT_EQ(limit({{"delivery-limit", -1}}, {}), -1);
  EXPECT_EQ(limit({{"delivery-limit", 7}}, {}, "classic"), -1);
  auto queues = queue({{"delivery-limit", 7}}, {}, "quorum").queues;
  queues.push_back(queues[0]);
  queues[1].name = "rung.results";
  queues[1].effective_policy = R"({"delivery-limit": 5})";
  EXPECT_EQ(lowest_delivery_limit(queues).queue, "rung.results");
  queues[1].name = "rung.parked";
  EXPECT_EQ(lowest_delivery_limit(queues).queue, "rung.failed") << "nothing is taken in from it";
}

TEST(OwnSettings, AnAlternateExchangeIsFatalForTheReturnExchangeWithoutItsOwn) {
  const json diverted = {{"alternate-exchange", "unrouted"}};
  EXPECT_EQ(worst(exchange("rung.return", diverted)), Harm::fatal);
  EXPECT_EQ(worst(exchange("rung.return", diverted, {{"alternate-exchange", "rung.return"}})), std::nullopt);
  EXPECT_EQ(worst(exchange("rung.failed", diverted)), std::nullopt) << "its queue is always bound";
}

// RabbitMQ has one policy of a name: the advice for the exchange must not replace that for the queues.
TEST(OwnSettings, TheExchangesPolicyIsNotTheQueues) {
  EXPECT_THAT(judge(queue({{"message-ttl", 1}}))[0].mend, HasSubstr("--apply-to queues rung-own "));
  EXPECT_THAT(judge(exchange("rung.return", {{"alternate-exchange", "others"}}))[0].mend,
              HasSubstr("--apply-to exchanges rung-return "));
}

TEST(OwnSettings, AForeignBindingOfTheReturnExchangeIsFatal) {
  OwnState state;
  state.return_bindings = {{"rung.return", "queue:orders", "{}", "", "orders", "queue"},
                           {"rung.return", "order.created", "{}", "", "spy", "queue"}};
  const auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::fatal);
  EXPECT_EQ(found[0].subject, "rung.return");
  EXPECT_THAT(found[0].mend, HasSubstr("destination=spy"));
}

}  // namespace
}  // namespace rung::rabbit
