// SIGTERM ends the process within `drain`, with exit code 0, whichever service is unavailable.
#include <csignal>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

constexpr Ms kDrain{3000};
constexpr Ms kLoaded{2000};  // for a machine under load: between the signal and what we see

struct Fault {
  std::string name;
  std::function<void(TcpProxy& rabbit, TcpProxy& mysql)> hurt;
};

class Sigterm : public OutageTest, public ::testing::WithParamInterface<Fault> {
 protected:
  Sigterm() {
    config.store = "";   // store.timeout of ten seconds, longer than the drain
    config.broker = "";  // and heartbeats as slow
    config.more = "drain: 3s\n";
  }
  void ends_in_time() {
    const std::int64_t from = wall_ms();
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(kDrain * 3), 0);
    const std::int64_t took = wall_ms() - from;
    EXPECT_LE(took, (kDrain + kLoaded).count());
    std::printf("ended after %ld ms\n", static_cast<long>(took));
  }
};

TEST_P(Sigterm, UnderLoad) {
  constexpr std::size_t kMessages = 200;
  start();
  const std::string queue = attached();
  auto consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 4; }, kBound));
  GetParam().hurt(rabbit, mysql);
  last(Ms{300});  // in the middle of calls that do not come back
  ends_in_time();
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
  ends_in_time();
}

class OrderlyEnd : public OutageTest {};

// Under load, without faults: work under way is completed, other work is not begun; nothing is left half
// done.
TEST_F(OrderlyEnd, LeavesNothingInDoubt) {
  constexpr std::size_t kMessages = 800;
  config.more = "drain: 10s\n";
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
    ::testing::Values(Fault{"AllWell", [](TcpProxy&, TcpProxy&) {}},
                      Fault{"MysqlStalled", [](TcpProxy&, TcpProxy& mysql) { mysql.stall(); }},
                      Fault{"MysqlAway", [](TcpProxy&, TcpProxy& mysql) { away(mysql); }},
                      Fault{"RabbitmqStalled", [](TcpProxy& rabbit, TcpProxy&) { rabbit.stall(); }},
                      Fault{"RabbitmqAway", [](TcpProxy& rabbit, TcpProxy&) { away(rabbit); }},
                      Fault{"BothStalled",
                            [](TcpProxy& rabbit, TcpProxy& mysql) {
                              rabbit.stall();
                              mysql.stall();
                            }},
                      Fault{"BothAway",
                            [](TcpProxy& rabbit, TcpProxy& mysql) {
                              away(rabbit);
                              away(mysql);
                            }}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace rung::test
