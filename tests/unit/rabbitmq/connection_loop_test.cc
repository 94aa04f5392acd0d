// The loop without a reachable broker. With one: tests/integration/rabbitmq.
#include "plugin/rabbitmq/wire/connection_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "plugin/rabbitmq/wire/wire.h"
#include "tests/support/broker_recorder.h"
#include "tests/support/clock.h"

namespace rung::rabbit {
namespace {

class ConnectionLoopTest : public testing::Test {
 protected:
  ConnectionLoopTest() {
    options_.url = "amqp://127.0.0.1:1/";  // nobody listens there
    endpoints_ = *make_endpoints(options_, test_clock());
  }
  ConnectionLoop::Deps deps() { return {options_, *endpoints_.addresses, *endpoints_.access, adapter_}; }
  ConnectionLoop::Callbacks callbacks() {
    return {.prepare = {},
            .turn = [](Connection&) -> Result<BootMs> { return transient("there is no connection"); },
            .idle =
                [this] {
                  ++idle_;
                  return test_clock().boot() + Ms{60'000};
                },
            .over =
                [this](const ConnectionLoop::End& end) {
                  ++over_;
                  over_.notify_all();
                  EXPECT_FALSE(end.why.message.empty());
                  EXPECT_EQ(end.written, 0U);
                  EXPECT_FALSE(end.closed_by_peer);
                },
            .stopped =
                [this] {
                  EXPECT_EQ(stopped_, 0);
                  ++stopped_;
                }};
  }

  BrokerOptions options_;
  BrokerEndpoints endpoints_;
  test::BrokerRecorder recorder_;
  SinkAdapter adapter_{recorder_};
  std::atomic<int> over_{0}, idle_{0}, stopped_{0};
};

TEST_F(ConnectionLoopTest, TriesAgainUntilItIsStopped) {
  ConnectionLoop loop(deps(), {.thread_name = "test", .purpose = "test", .side = SinkAdapter::Side::intake},
                      callbacks());
  loop.start();
  for (int seen = over_; seen < 2; seen = over_) over_.wait(seen);
  loop.order_stop(test_clock().boot());
  loop.join();
  EXPECT_EQ(stopped_, 1);
  EXPECT_GE(idle_, 1);
  ASSERT_FALSE(recorder_.statuses().empty());
  EXPECT_EQ(recorder_.statuses().back().reason, "stopped");
  EXPECT_FALSE(recorder_.statuses().back().consuming);
}

TEST_F(ConnectionLoopTest, StopsBeforeItConnects) {
  ConnectionLoop loop(deps(), {.thread_name = "test", .purpose = "test", .side = {}}, callbacks());
  loop.order_stop(test_clock().boot());
  loop.start();
  loop.join();
  EXPECT_EQ(over_, 0);
  EXPECT_EQ(stopped_, 1);
  EXPECT_TRUE(recorder_.statuses().empty()) << "nobody's status";
}

}  // namespace
}  // namespace rung::rabbit
