// The management API's answers are bounded, whoever gives them.
#include "plugin/rabbitmq/topology/management.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "plugin/rabbitmq/topology/topology.h"
#include "tests/support/http_script.h"

namespace rung::rabbit {
namespace {

using test::HttpScript;
using testing::HasSubstr;

class ManagementBounds : public testing::Test {
 protected:
  std::unique_ptr<QueueAdmin> admin(const HttpScript& server) {
    options_.url = "amqp://guest:guest@127.0.0.1:1";
    options_.rabbitmq.management = server.url();
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
    const HttpScript server(
        [&](const HttpScript::Request&, std::size_t) -> HttpScript::Answer { return nodes; });
    options_.url = "amqp://guest:guest@127.0.0.1:1";
    options_.rabbitmq.management = server.url();
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
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = HttpScript::kEndlessBody};
  });
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("answers with more than 8 MB"));
  EXPECT_FALSE(admin(server)->policies());
}

TEST_F(ManagementBounds, AnAnswerThatIsNestedTooDeepIsRefused) {
  for (const std::size_t levels : {29U, 30U}) {  // in the answer, in its items
    const std::string nested = std::string(levels, '[') + std::string(levels, ']');
    const HttpScript server([&](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
      return {.body = R"({"items":[{"name":"q","arguments":)" + nested + R"(}],"page_count":1})"};
    });
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
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = 200, .body = page(0, 5, 1'000'000)};
  });
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("too many queues"));
}

// Each byte arrives in time, the answer never.
TEST_F(ManagementBounds, AnAnswerThatDripsIsGivenUp) {
  timeout_ = Ms{500};
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = HttpScript::kDrips};
  });
  const auto policies = admin(server)->policies();
  ASSERT_FALSE(policies);
  EXPECT_THAT(policies.error().message, HasSubstr("does not answer in time"));
}

}  // namespace
}  // namespace rung::rabbit
