// Messages that an instance had read but not committed when the broker closed its connection belong to
// another instance: they must not be taken in twice when this one resumes, or gets its database back.
#include <csignal>

#include "tests/faults/outage/fixture.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

class LeftBehind : public OutageTest {
 protected:
  void SetUp() override {
    config.broker = "";
    config.store = "  timeout: 2s\n";
    config.ladder = "[200ms, 1h]";
    config.more = "lease: 10s\n";
    queue_ = attached("q");
  }

  // The first one's leases and its connection to the broker end. Another instance, straight to the servers,
  // takes the message in, and its retry succeeds.
  void other_finishes() {
    rabbit.refuse();
    rabbit.cut();
    for (const char* table : {"rung_shards", "rung_nodes"})
      look("UPDATE {}." + std::string(table) + " SET expires_at = UTC_TIMESTAMP(3)");
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

  // The first instance has processed everything that it had, and one more message.
  void expect_one_life() {
    // Handled by the first instance alone, after everything that it still had in hand.
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
  ASSERT_TRUE(rung().logged("shards acquired"));
  rung().signal(SIGSTOP);
  publish_once();  // into the socket of the paused instance
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(9) == 0; }, kBound));
  other_finishes();
  rabbit.refuse(false);
  rung().signal(SIGCONT);
  ASSERT_TRUE(rung().logged("broker reconnected")) << rung().log_tail();
  expect_one_life();
}

TEST_F(LeftBehind, InTheQueueForTheDatabase) {
  start();
  ASSERT_TRUE(rung().logged("shards acquired"));
  mysql.stall();
  publish_once();
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(9) == 0; }, kBound));
  other_finishes();
  ASSERT_TRUE(rung().logged("database unavailable"));
  mysql.stall(false);
  ASSERT_TRUE(rung().logged("database available again", kBound)) << rung().log_tail();
  rabbit.refuse(false);
  ASSERT_TRUE(rung().logged("broker reconnected")) << rung().log_tail();
  expect_one_life();
}

// The database is unavailable for one instance only: its unacked messages go to its peer after a lease, not
// when the database is available again.
class WithoutDatabase : public OutageTest {
 protected:
  static constexpr std::size_t kHeld = 30;

  WithoutDatabase() {
    config.broker = "";
    config.ladder = "[200ms, 1h]";
    config.more = "lease: 3s\nhttp: { listen: \"127.0.0.1:" + std::to_string(port_) + "\" }\n";
  }
  std::int64_t tasks() { return number("SELECT COUNT(*) FROM {}.retry_current"); }
  // Of /readyz.
  bool tells(const std::string& problem) {
    HttpClient http(port_);
    const HttpAnswer answer = http.call("GET", "/readyz");
    return answer.status == 503 && answer.body.find("\"" + problem + "\"") != std::string::npos;
  }

  const int port_ = free_port();
  std::string queue_;
};

TEST_F(WithoutDatabase, WhatItHasUnackedIsItsPeersAfterALease) {
  start();
  ASSERT_TRUE(rung().logged("shards acquired"));
  queue_ = attached("q");
  mysql.refuse();
  mysql.cut();
  publish_failed(queue_, kHeld);
  SidecarConfig other = config;
  other.node = "node-2";
  other.broker_url = amqp_url();
  other.store_url = db.url();
  other.more = "lease: 3s\n";
  Sidecar second(other);
  second.start();
  EXPECT_TRUE(eventually([&] { return tasks() == kHeld; }, kBound))
      << tasks() << " of " << kHeld << " are taken in";
  EXPECT_TRUE(rung().logged("database does not answer: intake paused"));
  EXPECT_TRUE(tells("intake")) << "it was not the database's return that gave them back";
  // None of it takes effect a second time when the database is available again.
  mysql.refuse(false);
  ASSERT_TRUE(rung().logged("intake resumed", kBound));
  publish_failed(queue_, 5, "after");
  ASSERT_TRUE(eventually([&] { return tasks() == kHeld + 5; }, kBound)) << tasks();
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE state = 'parked'"), 0);
  EXPECT_EQ(number("SELECT COUNT(DISTINCT message_id) FROM {}.retry_current"),
            number("SELECT COUNT(*) FROM {}.retry_current"));
  ASSERT_TRUE(eventually(
      [&] { return number("SELECT COUNT(*) FROM {}.retry_events WHERE kind = 'intake_paused'") > 0; },
      kBound));
}

}  // namespace
}  // namespace rung::test
