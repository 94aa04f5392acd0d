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

TEST(Backoff, DoublesUpToTheLongest) {
  Backoff pauses(Ms{1000}, Ms{5000});
  for (const int longest : {1000, 2000, 4000, 5000, 5000}) {
    const Ms next = pauses.next();
    EXPECT_GE(next, Ms{longest / 2});
    EXPECT_LE(next, Ms{longest});
  }
  pauses.reset();
  EXPECT_LE(pauses.next(), Ms{1000});
  EXPECT_GE(pauses.next(Ms{4000}), Ms{2000});
}

class ConnectionLoopTest : public testing::Test, protected ConnectionLoop::Handler {
 protected:
  ConnectionLoopTest() {
    options_.url = "amqp://127.0.0.1:1/";  // nobody listens there
    endpoints_ = *make_endpoints(options_, test_clock());
  }
  ConnectionLoop::Deps deps() { return {options_, *endpoints_.addresses, *endpoints_.access, adapter_}; }

  Result<BootMs> turn(Connection&) override { return transient("there is no connection"); }
  BootMs idle() override {
    ++idle_;
    return test_clock().boot() + Ms{60'000};
  }
  void over(const ConnectionLoop::End& end) override {
    ++over_;
    over_.notify_all();
    EXPECT_FALSE(end.why.message.empty());
    EXPECT_EQ(end.written, 0U);
    EXPECT_FALSE(end.closed_by_peer);
  }
  void stopped() override {
    EXPECT_EQ(stopped_, 0);
    ++stopped_;
  }

  BrokerOptions options_;
  BrokerEndpoints endpoints_;
  test::BrokerRecorder recorder_;
  SinkAdapter adapter_{recorder_};
  std::atomic<int> over_{0}, idle_{0}, stopped_{0};
};

TEST_F(ConnectionLoopTest, TriesAgainUntilItIsStopped) {
  ConnectionLoop loop(deps(), {.thread_name = "test", .purpose = "test", .side = SinkAdapter::Side::intake},
                      *this);
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
  ConnectionLoop loop(deps(), {.thread_name = "test", .purpose = "test", .side = {}}, *this);
  loop.order_stop(test_clock().boot());
  loop.start();
  loop.join();
  EXPECT_EQ(over_, 0);
  EXPECT_EQ(stopped_, 1);
  EXPECT_TRUE(recorder_.statuses().empty()) << "nobody's status";
}

}  // namespace
}  // namespace rung::rabbit
