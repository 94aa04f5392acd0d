// A paused queue: nothing comes, on any instance, whatever happens to them; and then all of it.
#include <csignal>

#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class PausedQueue : public SidecarTest {
 protected:
  PausedQueue() { config.more = "lease: 3s\n"; }

  static Message message() {
    Message message;
    message.properties.message_id = unique_name("m");
    message.body = unique_name("body");
    return message;
  }
  void expect_untouched(const std::string& queue) {
    for (const Row& row : current(queue)) {
      EXPECT_EQ(row.at("state"), "scheduled");
      EXPECT_EQ(row.at("attempt"), "0");
      EXPECT_EQ(row.at("level"), "1");
    }
    EXPECT_TRUE(rows("SELECT * FROM retry_history WHERE queue = '" + queue + "'").empty());
  }
};

TEST_F(PausedQueue, GetsNothingOnAnyInstanceThroughAKillUntilItIsResumed) {
  start();
  ASSERT_TRUE(eventually([&] { return command("queues").code == 0; }, kBound)) << "it has the tables";
  rows("SELECT 1");  // into the schema
  SidecarConfig second = config;
  second.node = "node-2";
  Sidecar other(second);
  other.start();
  ASSERT_TRUE(other.wait_ready(kBound, 2));
  ASSERT_TRUE(eventually([&] { return db.value("SELECT COUNT(*) FROM rung_shards WHERE owner = 2") == "32"; },
                         kBound));
  const std::string queue = attached(), free = attached();
  ASSERT_EQ(command("pause " + queue + " --reason deploy").code, 0);
  for (Sidecar* each : {&rung(), &other}) EXPECT_TRUE(each->logged("queue paused", kBound));
  EXPECT_TRUE(rung().logged("queue=" + queue)) << rung().log_tail();

  // Enough for shards of both.
  constexpr int kMany = 20;
  for (int i = 0; i < kMany; ++i) fail(queue, message());
  fail(free, message());
  EXPECT_EQ(int_header(delivery(free).message, "retry-attempt"), 1) << "the others flow";
  expect_nothing(queue);
  expect_untouched(queue);

  other.kill9();
  expect_nothing(queue);  // after a takeover
  rung().kill9();
  rung().start();
  ASSERT_TRUE(rung().wait_ready());
  expect_nothing(queue);  // after a restart
  EXPECT_EQ(current(queue).size(), static_cast<std::size_t>(kMany));
  expect_untouched(queue);

  ASSERT_EQ(command("resume " + queue).code, 0);
  for (int i = 0; i < kMany; ++i) {
    const Received got = delivery(queue);
    EXPECT_EQ(int_header(got.message, "retry-attempt"), 1);
    EXPECT_EQ(int_header(got.message, "retry-level"), 1);
    amqp.ack(got);
  }
}

}  // namespace
}  // namespace rung::test
