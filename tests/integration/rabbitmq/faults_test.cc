// Connections that are cut, stalled, half open. A broker that crashes: the torture run.
#include <set>
#include <string>

#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

class Faults : public RabbitTest {};

TEST_F(Faults, AStalledConnectionNeitherBlocksTheCallerNorTheStop) {
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.stall_to_server();
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 200; ++i) batch.push_back(outgoing(i, text(std::string(100'000, 's'))));
  broker_->publish(std::move(batch));
  broker_->stop(Ms{1000});
  EXPECT_EQ(sink_.result_count(), 200U);
  EXPECT_FALSE(sink_.ways().contains(-1));
}

TEST_F(Faults, TheFenceCutsWhatIsHalfSent) {
  TcpProxy& proxy = through_proxy();
  start_up();
  proxy.stall_to_server();
  broker_->allow_publish_until(test_clock().boot() + Ms{1000});
  broker_->publish({outgoing(1, text(std::string(30'000'000, 'f')))});  // more than any socket's buffers hold
  EXPECT_EQ(how(1), How::fenced);
  proxy.stall_to_server(false);
  ASSERT_TRUE(sink_.up());
  broker_->allow_publish_until(test_clock().boot() + Ms{300000});
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
  EXPECT_EQ(how(1), How::lost);
  EXPECT_TRUE(sink_.up());
  broker_->publish({outgoing(2)});
  EXPECT_EQ(how(2), How::confirmed);
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

}  // namespace
}  // namespace rung::test
