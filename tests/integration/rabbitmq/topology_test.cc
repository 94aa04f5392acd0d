// What is declared, and what happens when it cannot be.
#include "tests/integration/rabbitmq/fixture.h"

namespace rung::test {
namespace {

class Topology : public RabbitTest {};

TEST_F(Topology, ExchangesAndQueuesAreDeclaredDurableAndBound) {
  start_up();
  for (const char* name : {".failed", ".delay", ".results", ".parked"}) {
    const std::string full = options_.prefix + name;
    EXPECT_TRUE(probe().exchange_exists(full)) << full;
    EXPECT_TRUE(probe().queue_exists(full)) << full;
    EXPECT_NO_THROW(probe().declare(full)) << "not durable, or with arguments";
    EXPECT_NO_THROW(probe().declare_exchange(full, "fanout"));
  }
  EXPECT_TRUE(probe().publish(options_.prefix + ".parked", "any key", text("kept")));
  EXPECT_EQ(probe().take(options_.prefix + ".parked", 1).size(), 1U);
  EXPECT_EQ(probe().consumers(failed()), 1U);
  EXPECT_EQ(probe().consumers(options_.prefix + ".results"), 1U);
  EXPECT_EQ(probe().consumers(options_.prefix + ".delay"), 0U);
}

TEST_F(Topology, QuorumQueuesHaveADeliveryLimitThatNeverBites) {
  options_.queue_type = "quorum";
  start_up();
  EXPECT_NO_THROW(probe().declare(
      failed(), {{"x-queue-type", "quorum"}, {"x-delivery-limit", std::int32_t{2147483647}}}));
  // More deliveries than RabbitMQ 4 allows by default (20) lose nothing.
  ASSERT_TRUE(probe().publish(failed(), "", text("again and again")));
  for (int i = 0; i < 25; ++i) {
    auto got = sink_.deliveries(1);
    ASSERT_EQ(got.size(), 1U) << i;
    EXPECT_EQ(got[0].redelivered, i > 0);
    broker_->stop(Ms{1000});
    start();
  }
}

TEST_F(Topology, AnotherQueueOfThatNameIsToldAndTriedAgain) {
  probe().declare(queue_);
  probe().declare(failed(), {{"x-max-length", std::int32_t{5}}});
  start();
  ASSERT_TRUE(sink_.status(
      [](const BrokerStatus& s) { return s.reason.find("PRECONDITION_FAILED") != s.reason.npos; }));
  const std::string reason = sink_.statuses().back().reason;
  EXPECT_THAT(reason, HasSubstr(failed()));
  EXPECT_THAT(reason, HasSubstr("x-max-length"));
  // The other side works meanwhile.
  broker_->publish({outgoing(1)});
  EXPECT_EQ(how(1), How::confirmed);
  probe().remove(failed());
  EXPECT_TRUE(sink_.up());
}

TEST_F(Topology, AnInletDeletedUnderWayIsDeclaredAndConsumedAgain) {
  start_up();
  ASSERT_TRUE(probe().publish(failed(), "", text("one")));
  const auto one = sink_.deliveries(1);
  ASSERT_EQ(one.size(), 1U);
  probe().remove(failed());
  ASSERT_TRUE(eventually([&] { return probe().consumers(failed()) == 1U; }));
  broker_->ack({one[0].tag});  // of a queue that is gone: nothing happens
  ASSERT_TRUE(probe().publish(failed(), "", text("two")));
  const auto two = sink_.deliveries(1);
  ASSERT_EQ(two.size(), 1U);
  EXPECT_EQ(two[0].message.body, "two");
  EXPECT_EQ(two[0].tag.connection, one[0].tag.connection);
  EXPECT_EQ(probe().consumers(options_.prefix + ".results"), 1U);
}

TEST_F(Topology, AllInletsDeletedAtOnceAndTheirExchangesToo) {
  start_up();
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {".results", ".failed"}) {
      probe().remove_exchange(options_.prefix + name);
      probe().remove(options_.prefix + name);
    }
    ASSERT_TRUE(eventually([&] {
      return probe().consumers(failed()) == 1U && probe().consumers(options_.prefix + ".results") == 1U;
    })) << round;
  }
  ASSERT_TRUE(probe().publish(failed(), "", text("still")));
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
}

TEST_F(Topology, WrongCredentialsAreToldWithoutThem) {
  auto url = parse_url(amqp_url());
  url->password = "Hunter2-not-it";
  options_.url = format_url(*url);
  start();
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.reason.empty(); }));
  for (const BrokerStatus& status : sink_.statuses()) {
    EXPECT_FALSE(status.consuming || status.publishing);
    EXPECT_EQ(status.reason.find("Hunter2"), std::string::npos);
  }
  EXPECT_THAT(sink_.statuses().back().reason, HasSubstr("ACCESS_REFUSED"));
  broker_->publish({outgoing(1)});
  const auto began = std::chrono::steady_clock::now();
  broker_->stop(Ms{30000});
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSoon);
  EXPECT_EQ(how(1), How::lost);
}

TEST_F(Topology, AVirtualHostThatIsNotThereIsTold) {
  auto url = parse_url(amqp_url());
  url->path = "no-such-vhost";
  options_.url = format_url(*url);
  start();
  EXPECT_TRUE(sink_.status([](const BrokerStatus& s) {
    return s.reason.find("no-such-vhost") != s.reason.npos;
  })) << sink_.statuses().back().reason;
}

TEST_F(Topology, WhatNoWaitingMendsFailsAtStart) {
  const auto refused = [&](const BrokerOptions& options) {
    const auto broker = make_rabbit_broker(options);
    const auto started = broker->start(sink_);
    EXPECT_FALSE(started.has_value());
    return started ? std::string() : started.error().message;
  };
  BrokerOptions options = options_;
  options.url = "nonsense";
  EXPECT_NE(refused(options), "");
  options.url = "http://guest:sesame@localhost/";
  EXPECT_THAT(refused(options), testing::Not(HasSubstr("sesame")));
  options.url = "amqps://localhost/";
  options.ca = "/no/such/ca.pem";
  EXPECT_THAT(refused(options), HasSubstr("/no/such/ca.pem"));
  options = options_;
  options.queue_type = "stream";
  EXPECT_THAT(refused(options), HasSubstr("stream"));
}

TEST_F(Topology, ANameThatCannotBeLookedUpIsToldAndStopsSoon) {
  options_.url = "amqp://guest:guest@no-such-host.invalid:5672/";
  start();
  EXPECT_TRUE(sink_.status(
      [](const BrokerStatus& s) { return s.reason.find("no-such-host.invalid") != s.reason.npos; },
      Ms{30000}));
  const auto began = std::chrono::steady_clock::now();
  broker_->stop(Ms{30000});
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSoon);
}

}  // namespace
}  // namespace rung::test
