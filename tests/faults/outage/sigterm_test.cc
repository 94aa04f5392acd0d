// SIGTERM ends the process with exit code 0, whichever service is unavailable: after `drain`, which is
// shorter than any time-out.
#include <csignal>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

struct Fault {
  std::string name;
  std::function<void(TcpProxy& rabbit, TcpProxy& mysql)> hurt;
};

class Sigterm : public OutageTest, public ::testing::WithParamInterface<Fault> {
 protected:
  void ends() {
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
  }
};

TEST_P(Sigterm, UnderLoad) {
  constexpr std::size_t kMessages = 60;
  start();
  const std::string queue = attached();
  auto consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 4; }, kBound));
  GetParam().hurt(rabbit, mysql);
  ends();
  // Nothing is lost.
  for (TcpProxy* proxy : {&rabbit, &mysql}) {
    proxy->refuse(false);
    proxy->stall(false);
    proxy->cut();
  }
  start();
  all_ended(queue, *consumer, kMessages);
}

TEST_P(Sigterm, AtStart) {
  GetParam().hurt(rabbit, mysql);
  start_unready();
  ends();
}

class OrderlyEnd : public OutageTest {};

// Under load, without faults: work under way is completed, other work is not begun; nothing is left half
// done.
TEST_F(OrderlyEnd, LeavesNothingInDoubt) {
  constexpr std::size_t kMessages = 300;
  config.more = "lease: 10m\ndrain: 10m\n";
  start();
  const std::string queue = attached();
  auto consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::publish);
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 3; }, kBound));
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.rung_shards WHERE owner IS NOT NULL"), 0) << "a lease was kept";
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE state = 'publishing'"), 0)
      << "sent, and its answer not waited for, or claimed and not sent\n"
      << rung().log_tail();
  start();
  EXPECT_EQ(all_ended(queue, *consumer, kMessages), 0U) << "an orderly end repeats nothing";
}

void away(TcpProxy& proxy) {
  proxy.refuse();
  proxy.cut();
}

INSTANTIATE_TEST_SUITE_P(
    With, Sigterm,
    ::testing::Values(Fault{"MysqlAway", [](TcpProxy&, TcpProxy& mysql) { away(mysql); }},
                      Fault{"RabbitmqAway", [](TcpProxy& rabbit, TcpProxy&) { away(rabbit); }},
                      Fault{"BothStalled",
                            [](TcpProxy& rabbit, TcpProxy& mysql) {
                              rabbit.stall();
                              mysql.stall();
                            }}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace rung::test
