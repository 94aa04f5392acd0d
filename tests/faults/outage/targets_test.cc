// One target queue does not answer, or has a backlog of an hour: other queues, and tasks that become due now,
// are not delayed.
#include <cstdlib>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

// Stops a queue's process in the broker: it takes messages and answers nothing.
void queue_process(const std::string& queue, const std::string& what) {
  const std::string program = "[sys:" + what +
                              "(amqqueue:get_pid(Q)) || Q <- rabbit_amqqueue:list(), element(4, " +
                              "amqqueue:get_name(Q)) =:= <<\"" + queue + "\">>].";
  const Ran ran = run_shell(own_rabbitmqctl() + " eval '" + program + "'");
  ASSERT_EQ(ran.code, 0) << ran.out;
  ASSERT_NE(ran.out.find("ok"), std::string::npos) << ran.out;
}

class SlowTarget : public OutageTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SlowTarget, HoldsUpNoOther) {
  constexpr std::size_t kStuck = 1500, kLive = 300;
  config.ladder = "[2s, 1h]";
  start();
  const std::string stuck = new_name("stuck"), live = attached("live");
  amqp.declare(stuck, Table{{"x-queue-type", std::string(GetParam())}});
  remove_at_end(stuck);
  // Before it is stuck its window is wide.
  publish_failed(stuck, 500, "first");
  ASSERT_TRUE(eventually([&] { return amqp.depth(stuck).value_or(0) == 500; }, kBound));
  queue_process(stuck, "suspend");
  publish_failed(stuck, kStuck, "stuck");
  publish_failed(live, kLive, "live");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= kLive; }, kBound)) << rung().log_tail();
  // Also what comes later, while it is still stuck.
  publish_failed(live, kLive, "more");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= 2 * kLive; }, kBound))
      << rung().log_tail();
  queue_process(stuck, "resume");
  EXPECT_TRUE(until_in_state(stuck, "awaiting", 500 + kStuck)) << rung().log_tail();
  EXPECT_TRUE(until_in_state(live, "awaiting", 2 * kLive));
  // Waiting for an hour without an answer does not count as another attempt.
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_history WHERE attempt > 1"), 0);
}

// One queue is silent while another one answers all the time: nothing else reveals it.
TEST_P(SlowTarget, IsFoundBesideHealthyTraffic) {
  config.ladder = "[1s, 1h]";
  start();
  const std::string stuck = new_name("stuck"), live = attached("live");
  amqp.declare(stuck, Table{{"x-queue-type", std::string(GetParam())}});
  remove_at_end(stuck);
  // A channel's first message to a quorum queue is a call that the queue must answer: to a silent one it
  // would hold up the whole channel, which is another fault (HoldsUpNoOther).
  publish_failed(stuck, 1, "first");
  ASSERT_TRUE(until_in_state(stuck, "awaiting", 1));
  queue_process(stuck, "suspend");
  publish_failed(stuck, 1, "stuck");
  ASSERT_TRUE(until_in_state(stuck, "publishing", 1));
  std::size_t sent = 0;
  EXPECT_TRUE(eventually(
      [&] {
        publish_failed(live, 10, "live" + std::to_string(sent));
        sent += 10;
        return rung().logged("queue does not answer publishes", Ms{300});
      },
      kBound))
      << rung().log_tail();
  EXPECT_TRUE(until_in_state(live, "awaiting", sent));
  queue_process(stuck, "resume");
  EXPECT_TRUE(until_in_state(stuck, "awaiting", 2)) << rung().log_tail();
  EXPECT_EQ(amqp.depth(stuck).value_or(0), 2U) << "each published once";
}

INSTANTIATE_TEST_SUITE_P(Of, SlowTarget, ::testing::Values("classic", "quorum"),
                         [](const auto& type) { return std::string(type.param); });

class Backlog : public OutageTest {};

TEST_F(Backlog, GoesOutOldestFirstAtItsRateBesideWhatIsDueNow) {
  constexpr std::size_t kOverdue = 3000, kOthers = 500, kFresh = 50;
  config.ladder = "[2h]";
  config.more = "catch_up: 500\n";
  const std::string queue = attached("q"), other = attached("other");
  config.queue(other, "{ catch_up: 1000000 }");
  start();
  publish_failed(queue, kOverdue, "old");
  publish_failed(other, kOthers, "old");
  ASSERT_TRUE(until_in_state(queue, "scheduled", kOverdue));
  ASSERT_TRUE(until_in_state(other, "scheduled", kOthers));
  rung().signal(SIGTERM);
  ASSERT_EQ(rung().wait_exit(), 0);
  // An hour of silence. Each due at a time of its own, in the order of their ids.
  look("UPDATE {}.rung_tasks SET next_at = TIMESTAMPADD(HOUR, -3, next_at)");
  start();
  // What becomes due now.
  for (std::size_t i = 0; i < kFresh; ++i) {
    Message message;
    message.body = "fresh" + std::to_string(i);
    message.headers = Table{{"retry-queue", queue}, {"retry-after", std::string("100ms")}};
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }
  ASSERT_TRUE(until_in_state(queue, "awaiting", kOverdue + kFresh)) << rung().log_tail();
  ASSERT_TRUE(until_in_state(other, "awaiting", kOthers));
  // A confirm can be late on a busy machine. So the rate is measured from the start of the instance, before
  // its first message.
  const auto last_ms = [&](const std::string& of, const char* overdue) {
    return number(
        "SELECT TIMESTAMPDIFF(MICROSECOND, (SELECT MAX(started_at) FROM {}.rung_nodes), MAX(published_at)) "
        "DIV 1000 FROM {}.retry_history WHERE queue = '" +
        of + "' AND late_ms " + overdue + " 1000000");
  };
  const std::int64_t last = last_ms(queue, ">");
  // 500 a second, of which a tenth of a second's may go at once.
  EXPECT_GE(last, 1000 * static_cast<std::int64_t>(kOverdue) / 500 - 100);
  EXPECT_LT(last_ms(other, ">"), last) << "one queue's rate is not the other's";
  EXPECT_LT(last_ms(queue, "<"), last) << "what becomes due does not wait for the backlog";
  // The oldest first, by at most a second's messages out of order.
  std::map<std::string, std::size_t> nth_due;
  for (const auto& row : look("SELECT retry_id FROM {}.retry_history WHERE queue = '" + queue +
                              "' AND late_ms > 1000000 ORDER BY due_at, retry_id"))
    nth_due.emplace(row.at(0), nth_due.size());
  ASSERT_EQ(nth_due.size(), kOverdue);
  std::size_t nth_sent = 0;
  for (const Received& got : amqp.take(queue, kOverdue + kFresh, kBound)) {
    const auto due = nth_due.find(retry_id(got));
    if (due == nth_due.end()) continue;
    EXPECT_LE(std::max(due->second, nth_sent) - std::min(due->second, nth_sent), 500U) << due->first;
    ++nth_sent;
  }
  EXPECT_EQ(nth_sent, kOverdue);
}

}  // namespace
}  // namespace rung::test
