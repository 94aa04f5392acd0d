// The management API's answers are bounded, whoever gives them.
#include "plugin/rabbitmq/topology/management.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

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

TEST_F(ManagementBounds, AnAnswerWithoutAnEndIsCutOff) {
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = HttpScript::kEndlessBody};
  });
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("answers with more than 8 MB"));
  EXPECT_FALSE(admin(server)->policies());
}

TEST_F(ManagementBounds, PagesWithoutAnEndAreCutOff) {
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = 200, .body = page(0, 5, 1'000'000)};
  });
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("too many queues"));
}

TEST_F(ManagementBounds, DeepNestingIsRefused) {
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = 200, .body = std::string(1'000'000, '[')};
  });
  const auto queues = admin(server)->queues();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("nested too deep"));
}

// Each byte arrives in time, the answer never.
TEST_F(ManagementBounds, AnAnswerThatDripsIsGivenUp) {
  timeout_ = Ms{500};
  const HttpScript server([](const HttpScript::Request&, std::size_t) -> HttpScript::Answer {
    return {.status = HttpScript::kDrips};
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto policies = admin(server)->policies();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{10});
  ASSERT_FALSE(policies);
  EXPECT_THAT(policies.error().message, HasSubstr("does not answer in time"));
}

}  // namespace
}  // namespace rung::rabbit
