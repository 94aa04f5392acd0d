// A memory alarm: the broker blocks connections that publish. The whole broker is blocked for that moment,
// other tests on it wait for a second.
#include "plugin/rabbitmq/topology/probe.h"
#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

class Alarm : public RabbitTest {
 protected:
  static void set_watermark(const std::string& to) {
    const std::string command = "'" + env("RUNG_TEST_RABBITMQCTL") + "' set_vm_memory_high_watermark " + to;
    ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0);
  }
  void TearDown() override {
    set_watermark("0.6");
    RabbitTest::TearDown();
  }
};

TEST_F(Alarm, BlockedIsToldNothingIsLostAndUnblockedGoesOn) {
  start_up();
  broker_->publish({outgoing(1)});
  EXPECT_EQ(how(1), How::confirmed);
  set_watermark("absolute 1MB");
  // A connection is told when it publishes in the alarm.
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 2; i <= 2001; ++i) batch.push_back(outgoing(i, text(std::string(5000, 'b'))));
  broker_->publish(std::move(batch));
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return s.blocked; }));
  EXPECT_THAT(sink_.statuses().back().reason, HasSubstr("memory"));
  EXPECT_TRUE(sink_.statuses().back().publishing);
  EXPECT_LT(sink_.result_count(), 2001U);
  set_watermark("0.6");
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.blocked; }));
  ASSERT_TRUE(sink_.published(2001));
  EXPECT_EQ(sink_.ways()[static_cast<int>(How::confirmed)], 2001);
  EXPECT_EQ(probe().depth(queue_), 2001U);
}

// `rung doctor` must say so, instead of naming missing permissions after a minute of timeouts.
TEST_F(Alarm, AProbeSaysThatItIsBlocked) {
  start_up();
  set_watermark("absolute 1MB");
  Result<std::unique_ptr<rabbit::Probe>> probe;
  ASSERT_TRUE(eventually(
      [&] { return (probe = rabbit::Probe::open(options_, test_clock(), Ms{3000})).has_value(); }));
  EXPECT_TRUE((*probe)->queue_exists(queue_));
  EXPECT_EQ((*probe)->blocked(), "");
  EXPECT_FALSE((*probe)->may_publish("", "rung.none"));
  EXPECT_THAT((*probe)->blocked(), HasSubstr("memory"));
}

}  // namespace
}  // namespace rung::test
