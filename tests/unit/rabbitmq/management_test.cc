// The management API's answers are bounded, whoever gives them.
#include "plugin/rabbitmq/topology/management.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "tests/support/http_script.h"

namespace rung::rabbit {
namespace {

using test::HttpScript;
using testing::HasSubstr;

class ManagementBounds : public testing::Test {
 protected:
  std::unique_ptr<QueueAdmin> admin(const HttpScript& server) {
    options_.urls = {*parse_url("amqp://guest:guest@127.0.0.1:1")};
    options_.rabbitmq.management = *parse_url(server.url());
    return management_admin(options_, timeout_).value();
  }
  static std::string page(int from, int count, int pages) {
    std::string items;
    for (int i = from; i < from + count; ++i)
      items += std::string(items.empty() ? "" : ",") + R"({"name":"q)" + std::to_string(i) + "\"}";
    return R"({"items":[)" + items + R"(],"page_count":)" + std::to_string(pages) + "}";
  }
  static bool asks_for(const HttpScript::Request& request, int page) {
    return request.target.find("&page=" + std::to_string(page) + "&") != std::string::npos;
  }
  BrokerOptions options_;
  Ms timeout_ = std::chrono::seconds{30};
};

TEST_F(ManagementBounds, QueuesComeInPages) {
  const HttpScript server([](const HttpScript::Request& request, std::size_t) -> HttpScript::Answer {
    // q4 moved to the second page, because a queue was created meanwhile.
    return {.status = 200, .body = asks_for(request, 1) ? page(0, 5, 2) : page(4, 3, 2)};
  });
  const auto queues = admin(server)->queues();
  ASSERT_TRUE(queues);
  ASSERT_EQ(queues->size(), 7U);
  EXPECT_EQ(queues->back().name, "q6");
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST_F(ManagementBounds, NewQueuesOfOurOwnAreQuorumQueuesOnAClusterAndClassicOnASingleNode) {
  const auto type = [&](const HttpScript::Answer& nodes, int major_version) {
    const HttpScript server(nodes);
    options_.urls = {*parse_url("amqp://guest:guest@127.0.0.1:1")};
    options_.rabbitmq.management = *parse_url(server.url());
    OwnQueueTypes types;
    const std::string first = types.of("rung.failed", options_, major_version);
    EXPECT_EQ(types.of("rung.delay", options_, major_version), first);
    EXPECT_EQ(server.requests().size(), 1U) << "asked once";
    types.found("rung.results", "stream");
    EXPECT_EQ(types.of("rung.results", options_, major_version), "stream") << "one that is there stays";
    return first;
  };
  const HttpScript::Answer one{.body = R"([{"name":"rabbit@a"}])"};
  const HttpScript::Answer two{.body = R"([{"name":"rabbit@a"},{"name":"rabbit@b"}])"};
  const HttpScript::Answer refused{.status = 401};  // the user lacks the tag monitoring
  EXPECT_EQ(type(one, 4), "classic");
  EXPECT_EQ(type(one, 3), "classic");
  EXPECT_EQ(type(two, 4), "quorum");
  EXPECT_EQ(type(two, 3), "quorum");
  EXPECT_EQ(type(refused, 4), "quorum");
  EXPECT_EQ(type(refused, 3), "classic");
}

TEST_F(ManagementBounds, AnAnswerWithoutAnEndIsCutOff) {
  const HttpScript server({.status = HttpScript::kEndlessBody});
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("answers with more than 8 MB"));
  EXPECT_FALSE(admin(server)->policies());
}

TEST_F(ManagementBounds, AnAnswerThatIsNestedTooDeepIsRefused) {
  for (const std::size_t levels : {29U, 30U}) {  // in the answer, in its items
    const std::string nested = std::string(levels, '[') + std::string(levels, ']');
    const HttpScript server(
        {.body = R"({"items":[{"name":"q","arguments":)" + nested + R"(}],"page_count":1})"});
    const auto queues = admin(server)->queues();
    if (levels == 29U) {
      ASSERT_TRUE(queues) << queues.error().message;
      EXPECT_EQ(queues->size(), 1U);
    } else {
      ASSERT_FALSE(queues);
      EXPECT_THAT(queues.error().message, HasSubstr("nested too deep"));
    }
  }
}

TEST_F(ManagementBounds, PagesWithoutAnEndAreCutOff) {
  const HttpScript server({.body = page(0, 5, 1'000'000)});
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("too many queues"));
}

// Each byte arrives in time, the answer never.
TEST_F(ManagementBounds, AnAnswerThatDripsIsGivenUp) {
  timeout_ = Ms{500};
  const HttpScript server({.status = HttpScript::kDrips});
  const auto policies = admin(server)->policies();
  ASSERT_FALSE(policies);
  EXPECT_THAT(policies.error().message, HasSubstr("does not answer in time"));
}

// ---- What others can set on Rung's own queues and exchanges: which of it harms, and the command that mends
// it.

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OwnState queue(const json& definition = json::object(), const json& arguments = json::object(),
               const std::string& type = "classic") {
  QueueFacts facts;
  facts.name = "rung.failed";
  facts.type = type;
  facts.arguments = arguments;
  facts.effective_policy = definition;
  if (!definition.empty()) facts.policy = "all";
  OwnState state;
  state.queues = {facts};
  return state;
}
OwnState exchange(const std::string& name, const json& definition, const json& arguments = json::object()) {
  OwnState state;
  state.exchanges = {{name, "direct", "all", arguments}};
  state.policies = {{"all", ".*", "all", definition}};
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
  state.policies = {{"all", ".*", "all", R"({"max-length": 5})"_json}};
  EXPECT_THAT(judge(state)[0].what, HasSubstr("operator policy 'limits'"));
  state.policies = {{"all", ".*", "all", R"({"delivery-limit": 7})"_json}};
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
  queues[1].effective_policy = {{"delivery-limit", 5}};
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
  state.return_bindings = {{"rung.return", "queue:orders", json::object(), "", "orders", "queue"},
                           {"rung.return", "order.created", json::object(), "", "spy", "queue"}};
  const auto found = judge_settings("rung", "classic", state);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].harm, Harm::fatal);
  EXPECT_EQ(found[0].subject, "rung.return");
  EXPECT_THAT(found[0].mend, HasSubstr("destination=spy"));
}

}  // namespace
}  // namespace rung::rabbit
