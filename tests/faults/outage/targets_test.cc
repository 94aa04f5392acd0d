// One target queue does not answer: others are not delayed. One has a backlog of an hour: it goes out at its
// rate.
#include <csignal>
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

class SlowTarget : public OutageTest {};

TEST_F(SlowTarget, HoldsUpNoOther) {
  constexpr std::size_t kFirst = 100, kStuck = 400, kLive = 60;
  config.ladder = "[2s, 1h]";
  start();
  const std::string stuck = new_name("stuck"), live = attached("live");
  amqp.declare(stuck);
  remove_at_end(stuck);
  // Before it is stuck its window is wide.
  publish_failed(stuck, kFirst, "first");
  ASSERT_TRUE(eventually([&] { return amqp.depth(stuck).value_or(0) == kFirst; }, kBound));
  queue_process(stuck, "suspend");
  publish_failed(stuck, kStuck, "stuck");
  publish_failed(live, kLive, "live");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= kLive; }, kBound)) << rung().log_tail();
  // Also what comes later, while it is still stuck.
  publish_failed(live, kLive, "more");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= 2 * kLive; }, kBound))
      << rung().log_tail();
  EXPECT_TRUE(rung().logged("queue does not answer publishes"));
  queue_process(stuck, "resume");
  EXPECT_TRUE(until_in_state(stuck, "awaiting", kFirst + kStuck)) << rung().log_tail();
  EXPECT_TRUE(until_in_state(live, "awaiting", 2 * kLive));
  // Waiting for an hour without an answer does not count as another attempt.
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_history WHERE attempt > 1"), 0);
}

class Backlog : public OutageTest {};

TEST_F(Backlog, GoesOutOldestFirstAtItsRate) {
  constexpr std::size_t kOverdue = 1500, kRate = 500;
  config.ladder = "[2h]";
  config.more += "catch_up: 500\n";
  const std::string queue = attached("q");
  start();
  publish_failed(queue, kOverdue, "old");
  ASSERT_TRUE(until_in_state(queue, "scheduled", kOverdue));
  rung().signal(SIGTERM);
  ASSERT_EQ(rung().wait_exit(), 0);
  // An hour of silence. Each due at a time of its own, in the order of their ids.
  look("UPDATE {}.rung_tasks SET next_at = TIMESTAMPADD(HOUR, -3, next_at)");
  start();
  ASSERT_TRUE(until_in_state(queue, "awaiting", kOverdue)) << rung().log_tail();
  // A confirm can be late on a busy machine. So the rate is measured from the start of the instance, before
  // its first message. A tenth of a second's messages may go at once.
  EXPECT_GE(
      number(
          "SELECT TIMESTAMPDIFF(MICROSECOND, (SELECT MAX(started_at) FROM {}.rung_nodes), MAX(published_at)) "
          "DIV 1000 FROM {}.retry_history"),
      1000 * static_cast<std::int64_t>(kOverdue / kRate) - 100);
  // The oldest first, by at most a second's messages out of order.
  std::map<std::string, std::size_t> nth_due;
  for (const auto& row : look("SELECT retry_id FROM {}.retry_history ORDER BY due_at, retry_id"))
    nth_due.emplace(row.at(0), nth_due.size());
  ASSERT_EQ(nth_due.size(), kOverdue);
  const auto all = amqp.take(queue, kOverdue, kBound);
  ASSERT_EQ(all.size(), kOverdue);
  for (std::size_t nth_sent = 0; nth_sent < all.size(); ++nth_sent) {
    const std::size_t nth = nth_due.at(retry_id(all[nth_sent]));
    EXPECT_LE(std::max(nth, nth_sent) - std::min(nth, nth_sent), kRate) << retry_id(all[nth_sent]);
  }
}

}  // namespace
}  // namespace rung::test
