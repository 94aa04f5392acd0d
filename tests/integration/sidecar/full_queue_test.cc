// Target queues that are full: what the broker refuses has been seen by no consumer, whatever else it does
// with the message.
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class FullQueue : public SidecarTest {
 protected:
  // A full queue: attached, with one message of somebody else.
  std::string full(std::string_view overflow) {
    const std::string queue = new_name();
    amqp.declare(queue, {{"x-dead-letter-exchange", failed()},
                         {"x-max-length", std::int64_t{1}},
                         {"x-overflow", std::string(overflow)}});
    EXPECT_TRUE(amqp.publish("", queue, Message{{}, {}, "in the way"}));
    return queue;
  }
  // A message that failed in `queue`, as its consumer publishes it.
  void publish_failed(const std::string& queue, const std::string& routing_key) {
    Message message = order();
    message.headers->emplace_back("retry-queue", queue);
    message.headers->emplace_back("retry-origin-exchange", std::string());
    message.headers->emplace_back("retry-origin-routing-key", routing_key);
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }
  std::size_t times_logged(std::string_view text) {
    const std::string log = rung().log();
    std::size_t count = 0;
    for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }
};

constexpr std::string_view kAcked = "dead letter of a publish that its full queue refused";

// RabbitMQ nacks and dead-letters: both arrive here, in either order. A refusal is tried again after five
// seconds.
TEST_F(FullQueue, ARefusalThatIsDeadLetteredToCostsNothing) {
  start();
  const std::vector<std::string> queues{full("reject-publish-dlx"), full("reject-publish-dlx")};
  publish_failed(queues[0], queues[0]);
  publish_failed(queues[1], "order.created");
  ASSERT_TRUE(eventually([&] { return times_logged(kAcked) >= 4; }, kBound)) << rung().log_tail();
  for (const std::string& queue : queues) {
    amqp.purge(queue);
    const Received back = delivery(queue);
    EXPECT_EQ(int_header(back.message, "retry-attempt"), 1);
    EXPECT_EQ(int_header(back.message, "retry-level"), 1);
    wait_state(queue, "awaiting");
    amqp.ack(back);
    report(back, "succeeded");
    const Row row = wait_state(queue, "succeeded");
    EXPECT_EQ(row.at("attempt"), "1");
    EXPECT_EQ(history(retry_id(back)).size(), 1U);
    EXPECT_EQ(amqp.depth(queue), 0U) << "a second delivery";
    const std::string events =
        "SELECT COUNT(*) FROM retry_events WHERE kind = 'refused_publish_dead_lettered' AND subject = '" +
        queue + "'";
    EXPECT_TRUE(eventually([&] { return db.value(events) == "1"; }, kBound)) << db.value(events);
  }
  EXPECT_EQ(rung().log().find("row is older than its delivery"), std::string::npos);
}

// The queue had confirmed it and then dropped its oldest message: without this failure it would be lost.
TEST_F(FullQueue, AnEvictionIsAFailure) {
  start();
  const std::string queue = full("drop-head");
  amqp.purge(queue);
  publish_failed(queue, queue);
  const std::string id = wait_state(queue, "awaiting").at("retry_id");
  EXPECT_TRUE(amqp.publish("", queue, Message{{}, {}, "in the way"}));
  EXPECT_TRUE(eventually(
      [&] {
        const auto attempts = history(id);
        return !attempts.empty() && attempts[0].at("outcome") == "failed";
      },
      kBound))
      << rung().log_tail();
}

}  // namespace
}  // namespace rung::test
