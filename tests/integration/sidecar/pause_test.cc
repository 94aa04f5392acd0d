// A paused queue: nothing comes, on any instance, whatever happens to them; and then all of it.
#include <csignal>

#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class PausedQueue : public SidecarTest {
 protected:
  PausedQueue() { config.more = "lease: 3s\n"; }

  void begin() {
    start();
    ASSERT_TRUE(eventually([&] { return command("queues").code == 0; }, kBound)) << "it has the tables";
    rows("SELECT 1");  // into the schema
  }
  Ran command(const std::string& words) {
    return run_shell("'" + rung_program() + "' " + words + " -c '" + rung().config_path() + "'");
  }
  void pause(const std::string& queue, const std::string& more = "") {
    const Ran ran = command("pause " + queue + " --reason deploy " + more);
    ASSERT_EQ(ran.code, 0) << ran.out;
  }
  void resume(const std::string& queue) {
    const Ran ran = command("resume " + queue);
    ASSERT_EQ(ran.code, 0) << ran.out;
  }
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
  begin();
  SidecarConfig second = config;
  second.node = "node-2";
  Sidecar other(second);
  other.start();
  ASSERT_TRUE(other.wait_ready(kBound, 2));
  ASSERT_TRUE(eventually([&] { return db.value("SELECT COUNT(*) FROM rung_shards WHERE owner = 2") == "32"; },
                         kBound));
  const std::string queue = attached(), free = attached();
  pause(queue);
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

  resume(queue);
  for (int i = 0; i < kMany; ++i) {
    const Received got = delivery(queue);
    EXPECT_EQ(int_header(got.message, "retry-attempt"), 1);
    EXPECT_EQ(int_header(got.message, "retry-level"), 1);
    amqp.ack(got);
  }
}

// The promise of lateness: what the pause held back is not the sidecar's lateness. SIGHUP changes the
// promise.
TEST_F(PausedQueue, DoesNotBreakAPromiseOfLateness) {
  const std::string queue = new_name(), other = new_name();
  config.queue(queue, "{ late_by: 5s }");
  config.queue(other, "{}");
  begin();
  declare_attached(queue);
  declare_attached(other);
  const auto counted = [&](const std::string& of) {
    const auto found = rows(
        "SELECT DISTINCT in_time_last_hour AS i, late_last_hour AS l, gated_last_hour AS g "
        "FROM retry_by_queue WHERE queue = '" +
        of + "'");
    return found.size() != 1 ? "" : found[0].at("i") + " " + found[0].at("l") + " " + found[0].at("g");
  };
  fail(queue, message());
  amqp.ack(delivery(queue));
  EXPECT_TRUE(eventually([&] { return counted(queue) == "1 0 0"; }, kBound)) << counted(queue);
  pause(queue);
  ASSERT_TRUE(rung().logged("queue paused"));
  fail(queue, message());
  fail(other, message());
  amqp.ack(delivery(other));
  ASSERT_TRUE(eventually(
      [&] {
        return db.value("SELECT COUNT(*) FROM retry_current WHERE queue = '" + queue +
                        "' AND state = 'scheduled' AND next_due_at < UTC_TIMESTAMP(3) - INTERVAL 6 SECOND") ==
               "1";
      },
      kBound));
  resume(queue);
  amqp.ack(delivery(queue));
  EXPECT_TRUE(eventually([&] { return counted(queue) == "1 0 1"; }, kBound)) << counted(queue);
  EXPECT_GT(std::stoll(db.value("SELECT MAX(late_ms) FROM retry_history WHERE queue = '" + queue + "'")),
            5000);
  EXPECT_EQ(counted(other), "NULL NULL NULL");
  EXPECT_NE(command("stats --json").out.find("\"late_by\""), std::string::npos);

  config.queues.clear();
  config.queue(queue, "{}");
  config.queue(other, "{ late_by: 1h }");
  rung().rewrite(config.text());
  rung().signal(SIGHUP);
  ASSERT_TRUE(rung().logged("config reloaded"));
  fail(queue, message());
  fail(other, message());
  amqp.ack(delivery(queue));
  amqp.ack(delivery(other));
  EXPECT_TRUE(eventually([&] { return counted(other) == "1 0 0"; }, kBound)) << counted(other);
  EXPECT_EQ(counted(queue), "1 0 1");
  // What was counted just before a stop is there after it.
  fail(other, message());
  amqp.ack(delivery(other));
  rung().signal(SIGTERM);
  ASSERT_EQ(rung().wait_exit(), 0);
  EXPECT_EQ(counted(other), "2 0 0");
}

TEST_F(PausedQueue, EndsByItself) {
  begin();
  const std::string queue = attached();
  const std::int64_t begun = wall_ms();
  pause(queue, "--for 4s");
  ASSERT_TRUE(rung().logged("queue paused"));
  fail(queue, message());
  delivery(queue);
  EXPECT_GE(wall_ms() - begun, 4000);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_queues WHERE state = 'paused'"), "0");
}

TEST_F(PausedQueue, IsInForceWithinASecond) {
  config.ladder = "[1200ms]";
  begin();
  const std::string queue = attached();
  pause(queue);
  fail(queue, message());  // due in 1.2 s
  expect_nothing(queue, Ms{1300});
  expect_untouched(queue);
}

// The loop has nothing to do but look at its clock; the sweeps find nothing to do.
TEST_F(PausedQueue, WithABacklogDelaysNoOther) {
  constexpr int kBacklog = 20'000;
  begin();
  const std::string queue = attached(), free = attached();
  pause(queue);
  ASSERT_TRUE(rung().logged("queue paused"));
  db.exec(
      "INSERT INTO rung_tasks (id, shard, queue, next_at, levels, ladder, created_at, first_failed_at) "
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
      "SELECT a.i * 1000 + b.i, (a.i * 1000 + b.i) % 64, '" +
      queue +
      "', UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, 3, 'default', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) FROM n a JOIN "
      "n "
      "b WHERE a.i <= 20");
  ASSERT_EQ(db.value("SELECT waiting FROM retry_queues WHERE queue = '" + queue + "'"),
            std::to_string(kBacklog));
  for (int i = 0; i < 10; ++i) {
    fail(free, message());
    amqp.ack(delivery(free));
  }
  const std::string unrecorded =
      "SELECT COUNT(*) FROM retry_history WHERE late_ms IS NULL AND queue = '" + free + "'";
  ASSERT_TRUE(eventually([&] { return db.value(unrecorded) == "0"; }, kBound));
  // The quickest of them: a busy machine delays some, a walk through the backlog would delay each.
  EXPECT_LE(std::stoll(db.value("SELECT MIN(late_ms) FROM retry_history WHERE queue = '" + free + "'")),
            1000);
  EXPECT_FALSE(amqp.get(queue));
  expect_untouched(queue);
}

}  // namespace
}  // namespace rung::test
