// The sidecar ends, by SIGTERM or by kill -9, while tasks are due, being published or taken in, and starts
// again under the same node name: everything continues at once, not after the lease; nothing is lost, and
// repeats can be recognised. A kill in each other state: the simulator, and tests/integration/crash with real
// servers.
#include <csignal>
#include <set>

#include "src/core/base/url.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class Restart : public SidecarTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    // Far longer than any test waits: a sidecar that waits for the lease's expiry fails the test.
    config.more = "lease: 10m\ndrain: 10m\n";
    config.broker = "  heartbeat: 300s\n";
  }

  // By SIGTERM or SIGKILL, as the test's parameter says.
  void end() {
    rung().signal(GetParam());
    const auto code = rung().wait_exit();
    EXPECT_EQ(code, GetParam() == SIGTERM ? 0 : 128 + SIGKILL);
  }

  static Message order() {
    Message message;
    message.properties.message_id = unique_name("m");
    message.headers = Table{{"tenant", "acme"}};
    message.body = unique_name("body");
    return message;
  }

  // `count` failed messages for `queue`, straight to <prefix>.failed.
  std::vector<Message> publish_failed(const std::string& queue, std::size_t count) {
    std::vector<Message> messages;
    for (std::size_t i = 0; i < count; ++i) {
      messages.push_back(order());
      messages.back().headers->emplace_back("retry-queue", queue);
    }
    amqp.publish_all(failed(), "", messages);
    return messages;
  }

  std::size_t rows_in(const std::string& queue, const std::string& state) {
    return std::stoul("0" + [&] {
      auto found = rows("SELECT COUNT(*) AS n FROM retry_current WHERE queue = '" + queue +
                        "' AND state = '" + state + "'");
      return found.empty() ? std::string() : found[0]["n"];
    }());
  }

  // Takes from the queue until all `bodies` have arrived. Repeats must be recognisable as such.
  std::size_t all_arrive(const std::string& queue, const std::vector<Message>& messages) {
    std::set<std::string> missing;
    for (const Message& message : messages) missing.insert(message.body);
    std::map<std::string, std::string> told_apart;  // body -> id/attempt
    std::size_t repeated = 0;
    while (!missing.empty()) {
      auto received = amqp.get_within(queue, kBound);
      if (!received) {
        ADD_FAILURE() << missing.size() << " of " << messages.size() << " are lost";
        break;
      }
      amqp.ack(*received);
      const std::string& body = received->message.body;
      const std::string name =
          retry_id(*received) + "/" + std::to_string(int_header(received->message, "retry-attempt"));
      missing.erase(body);
      const auto [it, is_new] = told_apart.emplace(body, name);
      if (!is_new) ++repeated;
      EXPECT_EQ(it->second, name) << "a repeated delivery under another name";
    }
    return repeated;
  }
};

TEST_P(Restart, BecameDueWhileNobodyWasThere) {
  config.ladder = "[1h]";
  start();
  const std::string queue = attached();
  Message message = order();
  message.headers->emplace_back("retry-queue", queue);
  ASSERT_TRUE(amqp.publish(failed(), "", message));
  ASSERT_TRUE(eventually([&] { return current(queue).size() == 1; }, kBound));
  end();
  db.exec("UPDATE rung_tasks SET next_at = UTC_TIMESTAMP(3)");
  start();
  const Received back = delivery(queue);
  EXPECT_EQ(int_header(back.message, "retry-attempt"), 1);
  EXPECT_EQ(retry_id(back), current(queue)[0].at("retry_id"));
}

// The claim is committed, the publish stuck on its way: attempt 1 stays attempt 1.
TEST_P(Restart, Publishing) {
  const auto url = parse_url(amqp_url());
  TcpProxy proxy(url->host, url->port == 0 ? 5672 : url->port);
  config.broker_url = with_port(amqp_url(), proxy.port());
  config.ladder = "[200ms, 1h]";
  config.more = "lease: 10m\ndrain: 2s\n";  // it cannot finish
  start();
  const std::string queue = attached();
  proxy.stall_to_server();
  const auto messages = publish_failed(queue, 5);
  ASSERT_TRUE(eventually([&] { return rows_in(queue, "publishing") == 5; }, kBound))
      << rows_in(queue, "publishing");
  const auto before = current(queue);
  end();
  for (const Row& row : current(queue)) EXPECT_EQ(row.at("state"), "publishing");
  proxy.stall_to_server(false);
  proxy.cut();
  start();
  all_arrive(queue, messages);
  ASSERT_TRUE(eventually([&] { return rows_in(queue, "awaiting") == 5; }, kBound));
  for (const Row& row : before) {
    auto attempts = history(row.at("retry_id"));
    ASSERT_EQ(attempts.size(), 1U) << "our own outage cost an attempt";
    EXPECT_EQ(attempts[0]["attempt"], "1");
  }
}

TEST_P(Restart, InTheMiddleOfFiring) {
  constexpr std::size_t kMessages = 300;
  config.ladder = "[1s, 1h]";
  start();
  const std::string queue = attached();
  const auto messages = publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return amqp.depth(queue).value_or(0) >= 50; }, kBound));
  end();
  const auto came = amqp.depth(queue).value_or(0);
  start();
  const std::size_t repeated = all_arrive(queue, messages);
  std::printf("%u of %zu had come before the end, %zu came twice\n", came, kMessages, repeated);
  if (GetParam() == SIGTERM) {
    EXPECT_EQ(repeated, 0U) << "a drain repeats nothing";
  }
  ASSERT_TRUE(eventually([&] { return rows_in(queue, "awaiting") == kMessages; }, kBound));
  EXPECT_EQ(rows("SELECT retry_id FROM retry_history WHERE queue = '" + queue + "'").size(), kMessages);
}

TEST_P(Restart, InTheMiddleOfIntake) {
  constexpr std::size_t kMessages = 600;
  config.ladder = "[1s, 1h]";
  config.broker += "  prefetch: 100\n";
  start();
  const std::string queue = attached();
  const auto messages = publish_failed(queue, kMessages / 2);
  ASSERT_TRUE(eventually([&] { return !current(queue).empty(); }, kBound));
  end();
  auto more = publish_failed(queue, kMessages / 2);  // while nobody is there
  start();
  more.insert(more.end(), messages.begin(), messages.end());
  all_arrive(queue, more);
  // One row each: what was taken in twice is one by its message-id.
  EXPECT_EQ(rows("SELECT retry_id FROM retry_current WHERE queue = '" + queue + "'").size(), kMessages);
}

INSTANTIATE_TEST_SUITE_P(By, Restart, ::testing::Values(SIGTERM, SIGKILL),
                         [](const auto& by) { return by.param == SIGTERM ? "Sigterm" : "Kill9"; });

}  // namespace
}  // namespace rung::test
