// amqps: the broker's certificate is checked, ours is shown.
#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

class Tls : public RabbitTest {
 protected:
  Tls() {
    options_.urls = {*parse_url(env("RUNG_TEST_AMQPS"))};
    options_.ca = env("RUNG_TEST_CA");
  }
  void use_host(const std::string& host) { options_.urls.front().host = host; }
  void works() {
    start_up();
    const Message message = full_message();
    broker_->publish({outgoing(1, message)});
    EXPECT_EQ(how(1), How::confirmed);
    EXPECT_TRUE(canonical(probe().take(queue_, 1)[0].message) == canonical(message));
    Message large = text(std::string(3'000'000, 'L'));
    broker_->publish({outgoing(2, large)});
    EXPECT_EQ(how(2), How::confirmed);
    ASSERT_TRUE(probe().publish(failed(), "", large));
    const auto got = sink_.deliveries(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_TRUE(got[0].message == large);
  }
  void refused(const std::string& because) {
    start();
    EXPECT_TRUE(sink_.status([&](const BrokerStatus& s) { return s.reason.find(because) != s.reason.npos; }))
        << (sink_.statuses().empty() ? "no status" : sink_.statuses().back().reason);
    for (const BrokerStatus& s : sink_.statuses()) EXPECT_FALSE(s.consuming || s.publishing);
  }
};

TEST_F(Tls, WithCaByAddress) {  // the certificate names the address: IP SANs are checked, too
  use_host("127.0.0.1");
  works();
}

TEST_F(Tls, AnotherNameThanTheCertificateSays) {
  use_host("127.1");  // the same address by a name that no certificate has
  refused("mismatch");
}

TEST_F(Tls, AnotherNameIsTakenWhereTheCheckIsOff) {
  use_host("127.1");
  options_.verify_host = false;
  works();
}

TEST_F(Tls, PlainAmqpAtATlsPortAndTheOtherWayRound) {
  Url plain = *parse_url(amqp_url());
  std::swap(options_.urls.front().port, plain.port);
  refused("TLS");
  broker_->stop(Ms{1000});
  BrokerRecorder sink;
  options_.urls = {plain};
  const auto broker = make_rabbit_broker(options_, test_clock());
  ASSERT_TRUE(broker->start(sink).has_value());
  EXPECT_TRUE(sink.status([](const BrokerStatus& s) { return !s.reason.empty(); }));
  broker->stop(Ms{1000});
}

TEST_F(Tls, FilesThatDoNotFitFailAtStart) {
  const auto refusal = [&](const BrokerOptions& options) {
    const auto started = make_rabbit_broker(options, test_clock())->start(sink_);
    return started ? std::string("started") : started.error().message;
  };
  BrokerOptions options = options_;
  options.cert = env("RUNG_TEST_CLIENT_CERT");
  EXPECT_THAT(refusal(options), HasSubstr("both"));
  options.key = options.cert;
  EXPECT_THAT(refusal(options), HasSubstr(options.key));
  options.ca = env("RUNG_TEST_CLIENT_KEY");
  EXPECT_THAT(refusal(options), HasSubstr(options.ca));
}

}  // namespace
}  // namespace rung::test
