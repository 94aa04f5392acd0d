// RabbitMQ is unavailable while messages fail: cut in the middle of publishes, refused, killed, stalled,
// blocked by an alarm. Nothing is lost, and no attempt is used up: a repeat is the same attempt.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

constexpr std::size_t kMessages = 100;

class RabbitmqAway : public OutageTest {
 protected:
  void flow() {
    start();
    AmqpProbe probe;
    queue = new_name();
    probe.declare(queue);
    consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::publish);
    publish_failed(queue, kMessages);
    ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 2; }, kBound));
  }
  void once() {
    EXPECT_TRUE(rung().logged("broker reconnected")) << "all messages may have ended before the outage";
    EXPECT_EQ(times("broker unavailable"), 1);
    EXPECT_EQ(times("broker reconnected"), 1);
    EXPECT_EQ(times("database unavailable"), 0);
  }

  std::string queue;
  std::unique_ptr<FailingConsumer> consumer;
};

TEST_F(RabbitmqAway, CutInTheMiddleOfPublishesThenRefused) {
  flow();
  rabbit.refuse();
  rabbit.cut();
  ASSERT_TRUE(rung().logged("broker unavailable"));
  last(kOutage);
  rabbit.refuse(false);
  all_ended(queue, *consumer, kMessages);
  once();
}

TEST_F(RabbitmqAway, CutAgainAndAgain) {
  flow();
  for (int i = 0; i < 8; ++i) {
    rabbit.cut_after(3000);  // in the middle of a publish or of an ack
    const std::size_t before = rabbit.accepted();
    eventually([&] { return rabbit.accepted() > before; }, Ms{1500});
  }
  rabbit.cut_after(0);
  all_ended(queue, *consumer, kMessages);
}

TEST_F(RabbitmqAway, Killed) {
  flow();
  // RabbitMQ 3 keeps the queue's declaration in memory for a while: it would be gone after the kill.
  (void)run_shell(std::string(std::getenv("RUNG_TEST_RABBITMQCTL")) + " -q eval 'mnesia:sync_log().'");
  own_servers("kill-broker");
  ASSERT_TRUE(rung().logged("broker unavailable"));
  last(kOutage / 2);
  own_servers("start-broker");
  all_ended(queue, *consumer, kMessages);
  once();
}

TEST_F(RabbitmqAway, Stalled) {
  flow();
  rabbit.stall();
  ASSERT_TRUE(rung().logged("broker unavailable")) << "heartbeats were not missed";
  last(kOutage / 2);
  rabbit.stall(false);
  all_ended(queue, *consumer, kMessages);
  once();
}

TEST_F(RabbitmqAway, HalfOpen) {
  flow();
  rabbit.half_close();
  ASSERT_TRUE(rung().logged("broker unavailable")) << "heartbeats were not missed";
  all_ended(queue, *consumer, kMessages);
  // Each of the two connections finds out by itself; where the first is back before the second knows, it is
  // said twice.
  EXPECT_LE(times("broker unavailable"), 2);
  EXPECT_EQ(times("broker unavailable"), times("broker reconnected"));
}

// Due times that are over when the alarm ends go out oldest first, each as its first attempt.
TEST_F(RabbitmqAway, MemoryAlarm) {
  constexpr int kWaiting = 40;
  config.ladder = "[1h]";
  // It is paused until the alarm is on, however long rabbitmqctl takes.
  config.more = "lease: 10m\ndrain: 3s\n";
  config.broker = "  heartbeat: 300s\n";
  // Two claims are under way at once, and on a slow machine the later may be answered first: its tasks then
  // overtake those of the earlier. With one thread for the database they are answered in their order.
  config.store = "  connections: 1\n";
  start();
  queue = attached();
  std::vector<Message> messages;
  for (int i = 0; i < kWaiting; ++i) {
    Message& message = messages.emplace_back();
    message.body = std::to_string(i);
    message.properties.message_id = message.body;
    // The latest first, so that the order of arrival and the order of due times differ.
    message.headers =
        Table{{"retry-queue", queue}, {"retry-after", std::to_string(8000 + 50 * (kWaiting - i)) + "ms"}};
  }
  amqp.publish_all(failed(), "", messages);
  const auto in_all = [&] {
    return number("SELECT COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "'") == kWaiting;
  };
  ASSERT_TRUE(eventually(in_all, kBound));
  // By the due times that they have, whatever pause a slow machine made while it took them in.
  std::map<std::string, std::string> due;
  for (const auto& row :
       look("SELECT message_id, next_due_at FROM {}.retry_current WHERE queue = '" + queue + "'"))
    due[row.at(0)] = row.at(1);
  rung().signal(SIGSTOP);
  ASSERT_EQ(amqp.depth(queue), 0U) << "this machine is too slow for the delays of this test";
  const Ran on = run_shell(own_rabbitmqctl() + " set_vm_memory_high_watermark absolute 10MB");
  rung().signal(SIGCONT);
  EXPECT_EQ(on.code, 0) << on.out;
  EXPECT_TRUE(rung().logged("broker blocks publishing"));
  const auto over = [&] {
    return number("SELECT SUM(next_due_at > UTC_TIMESTAMP(3)) FROM {}.retry_current WHERE queue = '" + queue +
                  "'") <= 0;
  };
  EXPECT_TRUE(eventually(over, kBound));
  last(Ms{1500});
  EXPECT_EQ(amqp.depth(queue), 0U) << "the alarm was to hold everything back";
  EXPECT_EQ(run_shell(own_rabbitmqctl() + " set_vm_memory_high_watermark 0.4").code, 0);
  EXPECT_TRUE(rung().logged("broker unblocked: publishing resumed"));
  const auto came = amqp.take(queue, kWaiting, kBound);
  ASSERT_EQ(came.size(), static_cast<std::size_t>(kWaiting));
  std::vector<std::string> order, bodies;
  for (const Received& one : came) {
    EXPECT_EQ(int_header(one.message, "retry-attempt"), 1);
    bodies.push_back(one.message.body);
    order.push_back(due.at(one.message.body));
  }
  EXPECT_TRUE(std::ranges::is_sorted(order)) << ::testing::PrintToString(bodies);
  ASSERT_TRUE(until_in_state(queue, "awaiting", kWaiting));
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_history WHERE queue = '" + queue + "'"), kWaiting);
  EXPECT_EQ(times("broker blocks publishing"), 1);
  EXPECT_EQ(times("broker unavailable"), 0);
}

}  // namespace
}  // namespace rung::test
