// Connections that are cut, stalled, half open; a broker that crashes.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

class Faults : public RabbitTest {
 protected:
  static std::chrono::milliseconds since(std::chrono::steady_clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - t);
  }
};

TEST_F(Faults, AStalledConnectionNeitherBlocksTheCallerNorTheStop) {
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.stall_to_server();
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 200; ++i) batch.push_back(outgoing(i, text(std::string(100'000, 's'))));
  const auto began = std::chrono::steady_clock::now();
  broker_->publish(std::move(batch));
  EXPECT_LT(since(began), kSoon);
  const auto stopping = std::chrono::steady_clock::now();
  broker_->stop(Ms{1000});
  EXPECT_LT(since(stopping), kSoon);
  EXPECT_EQ(sink_.result_count(), 200U);
  EXPECT_FALSE(sink_.ways().contains(-1));
}

TEST_F(Faults, AStallThatPassesLosesNothing) {
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.stall();
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 200; ++i) batch.push_back(outgoing(i, text(std::string(100'000, 's'))));
  broker_->publish(std::move(batch));
  EXPECT_EQ(sink_.result_count(), 0U);
  proxy.stall(false);
  ASSERT_TRUE(sink_.published(200));
  EXPECT_EQ(sink_.ways()[static_cast<int>(How::confirmed)], 200);
  EXPECT_EQ(probe().depth(queue_), 200U);
}

TEST_F(Faults, TheFenceCutsWhatIsHalfSent) {
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.stall_to_server();
  broker_->publish({outgoing(1, text(std::string(30'000'000, 'f')))});  // more than any socket's buffers hold
  EXPECT_FALSE(sink_.published(1, Ms{300}));
  broker_->allow_publish_until(test_clock().boot() + Ms{200});
  EXPECT_EQ(how(1), How::fenced);
  proxy.stall_to_server(false);
  ASSERT_TRUE(sink_.up());
  broker_->allow_publish_until(test_clock().boot() + Ms{60000});
  broker_->publish({outgoing(2, text("small"))});
  EXPECT_EQ(how(2), How::confirmed);
  EXPECT_EQ(probe().depth(queue_), 1U);
  EXPECT_EQ(probe().take(queue_, 1)[0].message.body, "small");
}

TEST_F(Faults, AHalfOpenConnectionIsNoticedByHeartbeats) {
  options_.heartbeat = Ms{1000};
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.half_close();
  broker_->publish({outgoing(1)});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(how(1), How::lost);
  EXPECT_LT(since(began), 2 * kSoon);
  EXPECT_TRUE(sink_.up());
  broker_->publish({outgoing(2)});
  EXPECT_EQ(how(2), How::confirmed);
}

TEST_F(Faults, AnIdleConnectionIsHeldByHeartbeats) {
  options_.heartbeat = Ms{1000};
  TcpProxy& proxy = through_proxy();
  start_up();
  const std::size_t accepted = proxy.accepted();
  EXPECT_FALSE(sink_.status([](const BrokerStatus& s) { return !s.consuming || !s.publishing; }, Ms{5000}));
  EXPECT_EQ(proxy.accepted(), accepted);
}

TEST_F(Faults, CutAgainAndAgainItComesBack) {
  TcpProxy& proxy = through_proxy();
  start_up();
  std::uint64_t token = 0;
  for (int round = 0; round < 5; ++round) {
    const std::size_t told = sink_.statuses().size();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return sink_.statuses().size() >= told + 4; }));  // both down, both up
    ASSERT_TRUE(sink_.up());
    broker_->publish({outgoing(++token)});
    EXPECT_EQ(how(token), How::confirmed);
    ASSERT_TRUE(probe().publish(failed(), "", text("x")));
    auto got = sink_.deliveries(1);
    ASSERT_GE(got.size(), 1U);
    std::vector<DeliveryTag> tags;
    for (const Delivery& d : got) tags.push_back(d.tag);
    broker_->ack(tags);
  }
}

TEST_F(Faults, CutInTheMiddleOfALoginAndOfAMessage) {
  TcpProxy& proxy = through_proxy();
  proxy.cut_after(300);
  probe().declare(queue_);
  start();
  ASSERT_TRUE(sink_.up());
  proxy.cut_after(5'000'000);
  broker_->publish({outgoing(1, text(std::string(10'000'000, 'm')))});
  EXPECT_EQ(how(1), How::lost);
  EXPECT_EQ(probe().depth(queue_), 0U);
  ASSERT_TRUE(sink_.up());
  broker_->publish({outgoing(2)});
  EXPECT_EQ(how(2), How::confirmed);
}

TEST_F(Faults, ABrokerThatIsNotThereAtStart) {
  TcpProxy& proxy = through_proxy();
  proxy.refuse();
  probe().declare(queue_);
  start();
  broker_->publish({outgoing(1)});
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.reason.empty(); }));
  ASSERT_TRUE(eventually([&] { return proxy.accepted() >= 6; }));
  // Told once by each side, not at each attempt, and in one way, whoever met the reset: connect, read or
  // write.
  std::set<std::string> reasons;
  for (const BrokerStatus& told : sink_.statuses()) reasons.insert(told.reason);
  EXPECT_EQ(reasons.size(), 1U) << *reasons.begin() << ", " << *reasons.rbegin();
  EXPECT_LE(sink_.statuses().size(), 2U);
  proxy.refuse(false);
  ASSERT_TRUE(sink_.up());
  EXPECT_EQ(how(1), How::confirmed);
}

// A broker of its own: killed with -9, and started again.
TEST_F(Faults, ABrokerThatCrashes) {
  const std::string servers = env("RUNG_TEST_SERVERS");
  char folder[] = "/tmp/rung-crash-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto run = [&](const std::string& what) {
    return std::system(("'" + servers + "' " + what + " '" + folder + "' >/dev/null 2>&1").c_str());
  };
  struct Stop {
    std::function<int(const std::string&)> run;
    ~Stop() { run("stop"); }
  } stop{run};
  ASSERT_EQ(run("start"), 0);
  std::ifstream file(std::string(folder) + "/env");
  std::string line, url;
  while (std::getline(file, line)) {
    if (line.starts_with("export RUNG_TEST_AMQP=")) url = line.substr(22);
  }
  std::erase(url, '\\');
  options_.url = url;
  {
    AmqpProbe there(url);
    there.declare(queue_);
  }
  start();
  ASSERT_TRUE(sink_.up());
  Message durable = text("durable");
  durable.properties.delivery_mode = std::uint8_t{2};
  broker_->publish({outgoing(1, durable)});
  EXPECT_EQ(how(1), How::confirmed);
  {
    AmqpProbe there(url);
    ASSERT_TRUE(there.publish(failed(), "", durable));
  }
  ASSERT_EQ(sink_.deliveries(1).size(), 1U);  // not acked
  ASSERT_EQ(run("kill-broker"), 0);
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.consuming && !s.publishing; }));
  broker_->publish({outgoing(2, durable)});
  ASSERT_EQ(run("start-broker"), 0);
  ASSERT_TRUE(sink_.up(Ms{60000}));
  EXPECT_EQ(how(2), How::confirmed);
  const auto again = sink_.deliveries(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].redelivered);
  EXPECT_EQ(AmqpProbe(url).depth(queue_), 2U);
  broker_->stop(Ms{2000});
}

}  // namespace
}  // namespace rung::test
