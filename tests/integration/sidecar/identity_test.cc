// No message is taken for another, on real servers: what event publishers and consumers that copy headers do.
#include <string>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Identity : public SidecarTest {
 protected:
  void SetUp() override { config.ladder = "[200ms, 400ms, 800ms]"; }

  std::int64_t rows_of(const std::string& queue) { return static_cast<std::int64_t>(current(queue).size()); }

  // As a consumer copies them from a delivery, with what it adds itself.
  static Message next_message(const Received& received, std::string body) {
    Message next = received.message;
    next.body = std::move(body);
    return next;
  }
};

// Constant ids, empty bodies, everything else elsewhere: rejected within a second.
TEST_F(Identity, TenMessagesWithOneIdAreTenTasks) {
  start();
  const std::string queue = attached();
  for (int i = 0; i < 10; ++i) {
    Message event;
    event.properties.message_id = "constant";
    event.headers = Table{{"event", "e-" + std::to_string(i % 5)}};
    if (i >= 5) event.properties.correlation_id = "c";
    fail(queue, event);
  }
  EXPECT_EQ(amqp.take(queue, 10, kBound).size(), 10U) << "each comes back";
  EXPECT_EQ(rows_of(queue), 10);
  EXPECT_EQ(amqp.depth(failed()), 0U);
}

// The consumer handles a retry and publishes its next message to the same queue, with the headers that it has
// received; that one fails.
TEST_F(Identity, ANextMessageWithCopiedHeadersIsDelivered) {
  start();
  const std::string queue = attached();
  for (const bool reported : {true, false}) {
    fail(queue, order("handled " + std::to_string(reported)));
    const Received retry = delivery(queue);
    amqp.ack(retry);
    if (reported) {
      report(retry, "succeeded");
      wait_id(retry_id(retry), "succeeded");
    }
    fail(queue, next_message(retry, "next"));
    const Received back = delivery(queue);
    EXPECT_EQ(std::string(back.message.body), "next") << "the handled one is not delivered again";
    EXPECT_NE(retry_id(back), retry_id(retry));
    EXPECT_EQ(int_header(back.message, "retry-level"), 2) << "it does not begin anew";
    const auto child = rows("SELECT parent_id FROM retry_current WHERE retry_id = " + retry_id(back));
    ASSERT_EQ(child.size(), 1U);
    EXPECT_EQ(child[0].at("parent_id"), retry_id(retry));
    amqp.ack(back);
  }
  EXPECT_EQ(rows("SELECT detail FROM retry_events WHERE kind = 'retry_headers_copied' AND subject = '" +
                 queue + "'")
                .size(),
            1U);
}

}  // namespace
}  // namespace rung::test
