// RabbitMQ at several addresses: addresses that are silent, refuse, or reject the login are skipped.
#include <set>

#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"
#include "tests/support/silent.h"

namespace rung::test {
namespace {

class BrokerAddresses : public RabbitTest {
 protected:
  static std::string at_port(int port) { return with_port(amqp_url(), port); }

  // With `bad` among the addresses it is up, at the good one, and what it shall publish is confirmed. Which
  // one is tried first is diced: often enough that each is.
  void serves_beside(const std::string& bad) {
    for (int i = 0; i < 4; ++i) {
      BrokerRecorder sink;
      options_.url = i % 2 == 0 ? bad : good_;
      options_.other_urls = {i % 2 == 0 ? good_ : bad};
      const auto broker = make_rabbit_broker(options_, test_clock());
      ASSERT_TRUE(broker->start(sink));
      broker->allow_publish_until(test_clock().boot() + Ms{300'000});
      EXPECT_TRUE(sink.up()) << sink.statuses().back().reason;
      broker->publish({outgoing(1)});
      const auto result = sink.result(1);
      EXPECT_TRUE(result && result->how == How::confirmed);
      EXPECT_EQ(sink.statuses().back().publishing_at, parse_url(good_)->host_port(5672));
      EXPECT_EQ(sink.statuses().back().consuming_at, parse_url(good_)->host_port(5672));
      broker->stop(Ms{2000});
    }
  }

  void SetUp() override { probe().declare(queue_); }

  std::string good_ = amqp_url();
};

TEST_F(BrokerAddresses, OneThatTakesConnectionsAndSaysNothing) {
  const SilentPort silent;
  serves_beside(at_port(silent.port()));
}

// As a node of a cluster whose queues have no leader: it takes us in, and does not answer a declare.
TEST_F(BrokerAddresses, OneThatTakesUsInAndAnswersNoDeclare) {
  const auto url = parse_url(amqp_url());
  for (int i = 0; i < 4; ++i) {  // which one is tried first is diced
    BrokerRecorder sink;
    TcpProxy a(url->host, url->port), b(url->host, url->port);
    for (TcpProxy* one : {&a, &b}) one->deafen("(intake)", failed());
    options_.url = at_port(a.port());
    options_.other_urls = {at_port(b.port()), amqp_url()};
    const auto broker = make_rabbit_broker(options_, test_clock());
    ASSERT_TRUE(broker->start(sink));
    ASSERT_TRUE(sink.up());
    for (const BrokerStatus& told : sink.statuses())
      EXPECT_EQ(told.reason, "") << "an outage is told only where no address serves";
    EXPECT_EQ(sink.statuses().back().consuming_at, url->host_port(5672));
    broker->stop(Ms{2000});
  }
}

// The management API is asked at the broker's hosts: of them the first that answers.
TEST_F(BrokerAddresses, TheManagementApiOfAHostThatIsNotThere) {
  // Port 15672 is not ours to listen at: what is asked is which hosts are tried, and that none is the last.
  options_.url = "amqp://guest:guest@127.77.0.1:5672/%2f";
  options_.other_urls = {"amqp://guest:guest@127.77.0.2:5672/%2f"};
  auto admin = rabbit::management_admin(options_, Ms{1000});
  ASSERT_TRUE(admin);
  EXPECT_EQ((*admin)->name(), "the management API at 127.77.0.1:15672");
  EXPECT_FALSE((*admin)->reach());
  EXPECT_EQ((*admin)->name(), "the management API at 127.77.0.2:15672");
  options_.rabbitmq.management = env("RUNG_TEST_MANAGEMENT");
  admin = rabbit::management_admin(options_, Ms{120'000});
  ASSERT_TRUE(admin);
  const auto reached = (*admin)->reach();
  EXPECT_TRUE(reached) << reached.error().message;
}

}  // namespace
}  // namespace rung::test
