// docs/moving-from-the-delayed-exchange.md, step by step, under a publisher and a consumer that don't change.
// The plugin isn't here: its exchange is one that delivers at once, of another type than Rung would declare.
#include <set>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Moving : public SidecarTest {
 protected:
  // The application's own code: it knows the exchange's name, its routing keys, and x-delay.
  void publish(const std::string& body, std::int32_t delay_ms) {
    Message message;
    message.properties.delivery_mode = std::uint8_t{2};
    message.headers = Table{{"x-delay", delay_ms}, {"shop", "7"}};
    message.body = body;
    ASSERT_TRUE(publisher_.publish(delayed_, "order.created", message));
  }
  Received consumed() {
    auto received = consumer_.next(kBound);
    EXPECT_TRUE(received) << rung().log_tail();
    if (!received) return {};
    consumer_.ack(*received);
    return *received;
  }
  bool takes_in() {
    return eventually([&] { return amqp.consumers(config.prefix + ".delay").value_or(0) == 1; }, kBound);
  }
  void TearDown() override {
    amqp.remove_exchange(delayed_);
    amqp.remove_exchange(target_);
  }

  const std::string delayed_ = unique_name("my-delayed"), target_ = unique_name("my-exchange");
  AmqpProbe publisher_, consumer_;
};

TEST_F(Moving, ARunningPublisherAndConsumer) {
  // Before: the old exchange, its queue, both sides at work.
  const std::string orders = attached("orders");
  amqp.declare_exchange(delayed_, "topic");
  amqp.bind(orders, delayed_, "order.*");
  consumer_.consume(orders);
  publish("old", 200);
  EXPECT_EQ(consumed().message.body, "old");

  // 2. Where it goes on to. 3. Rung.
  amqp.declare_exchange(target_, "topic");
  amqp.bind(orders, target_, "order.*");
  config.more = "delays: [{ from: " + delayed_ + ", to: " + target_ + " }]\n";
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  // The old exchange still stands: told, with what is to be done, and nothing is taken away from anybody.
  ASSERT_TRUE(rung().logged("declaring the exchange " + delayed_)) << rung().log_tail();
  EXPECT_TRUE(rung().logged("docs/moving-from-the-delayed-exchange.md"));
  EXPECT_TRUE(rung().running());
  publish("still the old way", 200);
  EXPECT_EQ(consumed().message.body, "still the old way");

  // 6. The exchange is exchanged; the program did not end and is not started again.
  amqp.remove_exchange(delayed_);
  amqp.declare_exchange(delayed_, "fanout");
  amqp.bind(config.prefix + ".delay", delayed_);
  ASSERT_TRUE(takes_in()) << rung().log_tail();
  std::map<std::string, std::int64_t> not_before;  // by body
  for (int i = 0; i < 20; ++i) {
    not_before[std::to_string(i)] = wall_ms() + 900 - 20 * i;
    publish(std::to_string(i), 900 - 20 * i);
  }
  std::set<std::string> bodies;
  for (int i = 0; i < 20; ++i) {
    const Received got = consumed();
    EXPECT_GE(wall_ms(), not_before[got.message.body]);
    EXPECT_EQ(got.exchange, target_);
    EXPECT_EQ(got.routing_key, "order.created");
    EXPECT_EQ(text_header(got.message, "shop"), "7");
    EXPECT_FALSE(has_header(got.message, "x-delay"));
    bodies.insert(got.message.body);
  }
  EXPECT_EQ(bodies.size(), 20U);
  publish("marker", 1000);
  EXPECT_EQ(consumed().message.body, "marker") << "it came by both ways";
}

// Rung declares it by itself where nobody else has.
TEST_F(Moving, TheOldExchangeIsOnlyDeleted) {
  const std::string orders = attached("orders");
  amqp.declare_exchange(delayed_, "direct");
  amqp.declare_exchange(target_, "direct");
  amqp.bind(orders, target_, "order.created");
  config.more = "delays: [{ from: " + delayed_ + ", to: " + target_ + " }]\n";
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  ASSERT_TRUE(rung().logged("declaring the exchange " + delayed_)) << rung().log_tail();
  amqp.remove_exchange(delayed_);
  ASSERT_TRUE(eventually([&] { return amqp.exchange_exists(delayed_); }, kBound)) << rung().log_tail();
  ASSERT_TRUE(takes_in()) << rung().log_tail();
  consumer_.consume(orders);
  publish("new", 300);
  EXPECT_EQ(consumed().message.body, "new");
}

}  // namespace
}  // namespace rung::test
