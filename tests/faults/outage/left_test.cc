// What an instance had read but not committed when the broker gave its connection up belongs to another: it
// must not come to a second life when this one wakes, or gets its database back.
#include <csignal>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

class LeftBehind : public OutageTest {
 protected:
  void SetUp() override {
    config.ladder = "[200ms, 1h]";
    config.more = "lease: 3s\n";
    queue_ = attached("q");
  }

  // Another instance, straight to the servers, takes the message in, and its retry succeeds.
  void other_finishes() {
    SidecarConfig other = config;
    other.node = "node-2";
    other.broker_url = amqp_url();
    other.store_url = db.url();
    second_ = std::make_unique<Sidecar>(other);
    second_->start();
    const Received back = delivery(queue_, kBound);
    amqp.ack(back);
    report(back, "succeeded");
    ASSERT_TRUE(until_in_state(queue_, "succeeded", 1)) << second_->log_tail();
  }

  // The first instance has seen to all that it had, and to a message more.
  void expect_one_life() {
    // By the first instance alone, so that it comes after whatever that one still had in hand.
    second_->signal(SIGTERM);
    ASSERT_EQ(second_->wait_exit(), 0);
    publish_failed(queue_, 1, "after");
    ASSERT_TRUE(eventually(
        [&] { return number("SELECT COUNT(*) FROM {}.retry_current WHERE message_id = 'after-0'") > 0; },
        kBound));
    EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE message_id = 'once'"), 1)
        << rung().log_tail();
    EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_history h JOIN {}.retry_current c USING (retry_id) "
                     "WHERE c.message_id = 'once'"),
              1);
  }

  void publish_once() {
    Message message;
    message.properties.message_id = "once";
    message.body = "once";
    message.headers = Table{{"retry-queue", queue_}};
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }

  std::string queue_;
  std::unique_ptr<Sidecar> second_;
};

TEST_F(LeftBehind, InThePausedProcess) {
  start();
  ASSERT_TRUE(rung().logged("shards taken"));
  rung().signal(SIGSTOP);
  publish_once();  // into the socket of the one that sleeps
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(9) == 0; }, kBound));
  other_finishes();  // when the broker has given the sleeper up
  rung().signal(SIGCONT);
  ASSERT_TRUE(rung().logged("the broker is back")) << rung().log_tail();
  expect_one_life();
}

TEST_F(LeftBehind, InTheQueueForTheDatabase) {
  start();
  ASSERT_TRUE(rung().logged("shards taken"));
  mysql.stall();
  publish_once();
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(9) == 0; }, kBound));
  rabbit.refuse();
  rabbit.cut();
  other_finishes();
  mysql.stall(false);
  ASSERT_TRUE(rung().logged("the database is back", kBound * 2)) << rung().log_tail();
  rabbit.refuse(false);
  ASSERT_TRUE(rung().logged("the broker is back")) << rung().log_tail();
  expect_one_life();
}

}  // namespace
}  // namespace rung::test
