// rung.delay: a delayed message comes when its time has come, never early, and to where it says.
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Delay : public SidecarTest {
 protected:
  std::string inlet() const { return config.prefix + ".delay"; }

  // A message with a message-id, and these headers.
  static Message delayed(Table headers, std::string body = unique_name("body")) {
    Message message;
    message.properties.message_id = unique_name("m");
    message.properties.delivery_mode = std::uint8_t{2};
    message.body = std::move(body);
    message.headers = std::move(headers);
    return message;
  }

  // The row of the message, once it is there and, if it is said, in that state.
  Row row_of(const Message& message, std::string_view state = "") {
    return wait_row("message_id = '" + *message.properties.message_id + "'", state);
  }

  // An exchange with a queue bound to it; both removed at the end.
  std::string exchange_to(const std::string& queue, std::string_view type = "topic",
                          std::string_view key = "#") {
    exchanges_.push_back(unique_name("x"));
    amqp.declare_exchange(exchanges_.back(), type);
    amqp.bind(queue, exchanges_.back(), key);
    return exchanges_.back();
  }
  std::string new_exchange() { return exchanges_.emplace_back(unique_name("x")); }

  void TearDown() override {
    for (const std::string& name : exchanges_) amqp.remove_exchange(name);
  }

  std::vector<std::string> exchanges_;
};

TEST_F(Delay, GoesToTheMappingsExchangeWithItsRoutingKey) {
  const std::string queue = attached(), from = new_exchange();
  const std::string to = exchange_to(queue, "topic", "order.*");
  config.more = "delays: [{ from: " + yaml(from) + ", to: " + yaml(to) + " }]\n";
  start();
  const Message message = delayed({{"x-delay", 300}, {"app", "kept"}});
  ASSERT_TRUE(amqp.publish(from, "order.created", message));
  const Received back = delivery(queue);
  EXPECT_EQ(back.exchange, to);
  EXPECT_EQ(back.routing_key, "order.created");
  EXPECT_EQ(text_header(back.message, "app"), "kept");
  Row row = row_of(message);
  EXPECT_EQ(row["queue"], "");
  EXPECT_EQ(row["exchange"], to);
  EXPECT_EQ(row["routing_key"], "order.created");
}

// Several queues, one task: the word of one must not swallow the message of another.
TEST_F(Delay, BehindAnExchangeEachQueueHasItsWord) {
  const std::string queue = attached(), beside = attached();
  const std::string exchange = exchange_to(queue, "fanout");
  amqp.bind(beside, exchange);
  config.ladder = "[500ms, 1h]";
  start();
  // One has succeeded; then the other fails.
  const Message first = delayed({{"retry-exchange", exchange}});
  ASSERT_TRUE(amqp.publish(inlet(), "key", first));
  const Received there = delivery(beside);
  amqp.ack(delivery(queue));
  report(there, "succeeded");
  amqp.ack(there);
  row_of(first, "succeeded");
  ASSERT_TRUE(
      amqp.publish(inlet(), "key", delayed({{"retry-exchange", exchange}, {"x-delay", 1}}, first.body)));
  const Received late = delivery(beside);
  amqp.ack(delivery(queue));
  report(late, "succeeded");
  ASSERT_TRUE(
      eventually([&] { return rows("SELECT 1 FROM retry_current WHERE state = 'succeeded'").size() == 2; }));
  amqp.reject(late);
  const Received back = delivery(beside);
  EXPECT_EQ(back.message.body, late.message.body);
  EXPECT_NE(retry_id(back), retry_id(late)) << "a task of its own";
  EXPECT_FALSE(amqp.get(queue)) << "it would have been routed with that";
  // One has failed; then the other succeeds.
  const Message second = delayed({{"retry-exchange", exchange}});
  ASSERT_TRUE(amqp.publish(inlet(), "key", second));
  const Received failing = delivery(queue), fine = delivery(beside);
  amqp.reject(failing);
  ASSERT_TRUE(eventually([&] { return row_of(second)["queue"] == queue; }));
  report(fine, "succeeded");
  amqp.ack(fine);
  const Received again = delivery(queue);
  EXPECT_EQ(again.message.body, second.body);
  EXPECT_EQ(retry_id(again), retry_id(failing));
  EXPECT_EQ(int_header(again.message, "retry-attempt"), 2);
}

// As users of the plugin do it: a consumer postpones its delivery. That must not count as a duplicate of the
// first message.
TEST_F(Delay, PublishedAgainByItsConsumerItWaitsAgain) {
  start();
  const std::string queue = attached();
  Message message = delayed({{"x-delay", 200}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  const Received first = delivery(queue);
  ASSERT_TRUE(amqp.publish(inlet(), queue, message)) << "as it was";
  amqp.ack(first);
  Received back = delivery(queue);
  EXPECT_EQ(back.message.body, message.body);
  EXPECT_NE(retry_id(back), retry_id(first));
  Message with_headers = back.message;
  with_headers.headers->emplace_back("x-delay", 200);
  ASSERT_TRUE(amqp.publish(inlet(), queue, with_headers)) << "with all the headers that it came with";
  amqp.ack(back);
  const Received third = delivery(queue);
  EXPECT_EQ(third.message.body, message.body);
  EXPECT_NE(retry_id(third), retry_id(back));
}

}  // namespace
}  // namespace rung::test
