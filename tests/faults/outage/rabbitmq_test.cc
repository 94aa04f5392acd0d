// RabbitMQ is unavailable while messages fail: cut in the middle of publishes, refused, killed, stalled,
// blocked by an alarm. Nothing is lost, and no attempt is used up: a repeat is the same attempt.
#include <csignal>
#include <cstdlib>

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
  some_tries(rabbit);
  rabbit.refuse(false);
  all_ended(queue, *consumer, kMessages);
  once();
}

TEST_F(RabbitmqAway, Killed) {
  flow();
  // RabbitMQ 3 keeps the queue's declaration in memory for a while: it would be gone after the kill.
  (void)run_shell(std::string(std::getenv("RUNG_TEST_RABBITMQCTL")) + " -q eval 'mnesia:sync_log().'");
  own_servers("kill-broker");
  ASSERT_TRUE(rung().logged("broker unavailable"));
  some_tries(rabbit);
  own_servers("start-broker");
  all_ended(queue, *consumer, kMessages);
  once();
}

class RabbitmqSilent : public RabbitmqAway {
 protected:
  RabbitmqSilent() { notices_silence(); }
  // Each of the two connections finds out by itself; where the first is back before the second knows, or on a
  // busy machine, it is said more than once.
  void ended_as_often_as_it_began() {
    EXPECT_TRUE(
        eventually([&] { return times("broker unavailable") == times("broker reconnected"); }, kBound));
  }
};

TEST_F(RabbitmqSilent, Stalled) {
  flow();
  rabbit.stall();
  ASSERT_TRUE(rung().logged("broker unavailable")) << "heartbeats were not missed";
  rabbit.stall(false);
  all_ended(queue, *consumer, kMessages);
  ended_as_often_as_it_began();
}

// What becomes due in the alarm goes out afterwards, each as its first attempt.
TEST_F(RabbitmqAway, MemoryAlarm) {
  constexpr int kWaiting = 40;
  config.ladder = "[200ms, 1h]";
  start();
  queue = attached();
  rung().signal(SIGSTOP);  // until the alarm is on: a test cannot publish in it
  publish_failed(queue, kWaiting);
  const Ran on = run_shell(own_rabbitmqctl() + " set_vm_memory_high_watermark absolute 10MB");
  rung().signal(SIGCONT);
  EXPECT_EQ(on.code, 0) << on.out;
  EXPECT_TRUE(rung().logged("broker blocks publishing"));
  const auto all_due = [&] {
    return number("SELECT SUM(COALESCE(next_due_at, '') <= UTC_TIMESTAMP(3)) FROM {}.retry_current") ==
           kWaiting;
  };
  EXPECT_TRUE(eventually(all_due, kBound));
  EXPECT_EQ(amqp.depth(queue), 0U) << "the alarm was to hold everything back";
  EXPECT_EQ(run_shell(own_rabbitmqctl() + " set_vm_memory_high_watermark 0.4").code, 0);
  EXPECT_TRUE(rung().logged("broker unblocked: publishing resumed"));
  ASSERT_TRUE(until_in_state(queue, "awaiting", kWaiting));
  EXPECT_EQ(amqp.depth(queue), static_cast<std::uint32_t>(kWaiting));
  EXPECT_EQ(number("SELECT SUM(attempt) FROM {}.retry_history"), kWaiting);
  EXPECT_EQ(times("broker blocks publishing"), 1);
  EXPECT_EQ(times("broker unavailable"), 0);
}

}  // namespace
}  // namespace rung::test
