// A command is killed within its change; a sidecar as it starts, stops or hands over its shards.
#include <string>
#include <string_view>

#include "tests/integration/crash/fixture.h"
#include "tests/support/old_rows.h"

namespace rung::test {
namespace {

// --- changes by the command line: the command is killed, not the sidecar

class CrashOfACommand : public Crash {
 protected:
  Ran command(const std::string& words) {
    const Armed armed(GetParam());
    return run_shell(rung_program() + " " + words + " -c " + rung().config_path());
  }
  bool committed() const { return std::string(GetParam()).ends_with(".after_commit"); }
};

class CrashOfCancel : public CrashOfACommand {};
TEST_P(CrashOfCancel, IsDoneOrNot) {
  config.ladder = "[1h]";
  start();
  const std::string queue = climbing();
  publish_failed(queue);
  const std::string id = wait_state(queue, "scheduled").at("retry_id");
  EXPECT_EQ(command("cancel " + id).code, kKilled);
  EXPECT_EQ(current(queue)[0].at("state"), committed() ? "cancelled" : "scheduled");
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfCancel, ::testing::Values("cancel.before_commit", "cancel.after_commit"),
                         point_name);

class CrashOfRetry : public CrashOfACommand {};
TEST_P(CrashOfRetry, IsDoneOrNot) {
  config.ladder = "[200ms]";
  start();
  const std::string queue = climbing();
  publish_failed(queue);
  amqp.reject(delivery(queue));
  const Row row = wait_state(queue, "parked");
  EXPECT_EQ(command("retry " + row.at("retry_id")).code, kKilled);
  if (!committed()) {
    EXPECT_EQ(current(queue)[0].at("state"), "parked");
    ASSERT_EQ(run_shell(rung_program() + " retry " + row.at("retry_id") + " -c " + rung().config_path()).code,
              0);
  }
  const Received again = delivery(queue);
  EXPECT_EQ(retry_id(again), row.at("retry_id"));
  EXPECT_EQ(int_header(again.message, "retry-attempt"), 2);
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfRetry, ::testing::Values("redrive.before_commit", "redrive.after_commit"),
                         point_name);

// The child and the mark of the parked task are one transaction; repeating the command makes no second child.
class CrashOfEdit : public CrashOfACommand {};
TEST_P(CrashOfEdit, IsDoneOrNot) {
  config.ladder = "[200ms]";
  start();
  const std::string queue = climbing();
  publish_failed(queue);
  amqp.reject(delivery(queue));
  const std::string id = wait_state(queue, "parked").at("retry_id");
  const std::string words = "edit " + id + " --set-header fixed=yes";
  EXPECT_EQ(command(words).code, kKilled);
  EXPECT_EQ(current(queue).size(), committed() ? 2U : 1U);
  EXPECT_EQ(current(queue)[0].at("replaced_by") != "NULL", committed());
  ASSERT_EQ(run_shell(rung_program() + " " + words + " -c " + rung().config_path()).code, 0);
  const Received child = delivery(queue);
  EXPECT_EQ(text_header(child.message, "fixed"), "yes");
  EXPECT_EQ(current(queue)[0].at("replaced_by"), retry_id(child));
  expect_nothing(queue);  // never two messages
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfEdit, ::testing::Values("edit.before_commit", "edit.after_commit"),
                         point_name);

class CrashOfFinish : public CrashOfACommand {};
TEST_P(CrashOfFinish, IsDoneOrNot) {
  start();
  const std::string queue = climbing();
  publish_failed(queue);
  const Received back = delivery(queue);
  wait_state(queue, "awaiting");
  EXPECT_EQ(command("finish --succeeded " + retry_id(back)).code, kKilled);
  EXPECT_EQ(current(queue)[0].at("state"), committed() ? "succeeded" : "awaiting");
  EXPECT_EQ(history(retry_id(back))[0].at("outcome"), committed() ? "succeeded" : "pending");
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfFinish, ::testing::Values("finish.before_commit", "finish.after_commit"),
                         point_name);

// --- shutdown and start

class CrashWhileDraining : public Crash {};
TEST_P(CrashWhileDraining, NothingIsLost) {
  start_armed();
  const std::string queue = climbing();
  publish_failed(queue);
  ASSERT_TRUE(eventually([&] { return !current(queue).empty(); }));
  rung().signal(SIGTERM);
  die();
  restart();
  AmqpProbe consumer;
  consumer.consume(queue);
  consume_until(consumer, queue, "s", "succeeded");
  expect_whole(queue, "s", "succeeded");
}
INSTANTIATE_TEST_SUITE_P(At, CrashWhileDraining,
                         ::testing::Values("drain.begun", "leave.before_commit", "leave.after_commit"),
                         point_name);

class CrashOnHandover : public Crash {};
TEST_P(CrashOnHandover, TheOtherGoesOn) {
  config.more = "lease: 2s\ndrain: 10m\n";
  config.ladder = "[1h]";
  start_armed();
  const std::string queue = climbing();
  publish_failed(queue);
  ASSERT_TRUE(eventually([&] { return !current(queue).empty(); }));
  SidecarConfig other = config;
  other.node = "node-2";
  other.more = "lease: 1m\n";  // a lease that is lost may send a message twice
  Sidecar second(other);
  second.start();
  die();  // on giving back half of its shards
  db.exec("UPDATE rung_tasks SET next_at = UTC_TIMESTAMP(3)");
  const Received back = delivery(queue);
  EXPECT_EQ(back.message.body, body_);
  EXPECT_EQ(int_header(back.message, "retry-attempt"), 1);
  expect_nothing(queue);
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnHandover,
                         ::testing::Values("release.before_commit", "release.after_commit"), point_name);

class CrashAtStart : public Crash {};
TEST_P(CrashAtStart, TheNextGoesOn) {
  // A renewal comes after a third of the lease. It came at once only where the database was up before the
  // broker.
  if (std::string_view(GetParam()).starts_with("renew.")) config.more = "lease: 6s\ndrain: 10m\n";
  start_armed();
  die();
  restart();
  const std::string queue = climbing();
  publish_failed(queue);
  AmqpProbe consumer;
  consumer.consume(queue);
  consume_until(consumer, queue, "s", "succeeded");
  expect_whole(queue, "s", "succeeded");
}
INSTANTIATE_TEST_SUITE_P(At, CrashAtStart,
                         ::testing::Values("register.before_commit", "register.after_commit",
                                           "beat.before_commit", "beat.after_commit", "renew.before_commit",
                                           "renew.after_commit", "acquire.before_commit",
                                           "acquire.after_commit"),
                         point_name);

// ---- Killed in the middle of retention: no half-deleted task is shown, and the next process continues.

class CrashOfRetention : public Crash {
 protected:
  int number(const std::string& sql) { return std::stoi(rows(sql).at(0).at("n")); }
  // The views are consistent: each task has its history, and no history remains of a deleted task.
  void expect_whole() {
    EXPECT_EQ(
        number("SELECT COUNT(*) AS n FROM retry_current c WHERE queue = 'old' AND (SELECT COUNT(*) FROM "
               "retry_history h WHERE h.retry_id = c.retry_id) <> 2"),
        0);
    EXPECT_EQ(number("SELECT COUNT(*) AS n FROM retry_history h LEFT JOIN retry_current c ON c.retry_id = "
                     "h.retry_id WHERE c.retry_id IS NULL"),
              0);
    EXPECT_EQ(
        number("SELECT COUNT(*) AS n FROM retry_current c LEFT JOIN rung_bodies b ON b.task_id = c.retry_id "
               "WHERE b.task_id IS NULL"),
        0);
  }
};

TEST_P(CrashOfRetention, ShowsNothingHalfDeletedAndGoesOn) {
  db.open_store();
  const std::string parked = add_old_rows(db);
  config.more += "retention: 1h\n";
  start_armed();
  die();
  expect_whole();
  restart();
  ASSERT_TRUE(eventually([&] {
    return number("SELECT COUNT(*) AS n FROM retry_current WHERE queue = 'old'") == 1 &&
           number("SELECT COUNT(*) AS n FROM rung_bodies") == 1 &&
           number("SELECT COUNT(*) AS n FROM rung_attempts") == 2;
  })) << rung().log_tail();
  expect_whole();
  EXPECT_EQ(history(parked).size(), 2U);
  EXPECT_EQ(number("SELECT COUNT(*) AS n FROM information_schema.partitions WHERE table_schema = '" +
                   db.name() + "' AND partition_name = 'a'"),
            0);
  // Both tables have the same parts again, those to come too.
  ASSERT_TRUE(eventually([&] {
    return number(
               "SELECT COUNT(DISTINCT partition_name) AS n FROM information_schema.partitions WHERE "
               "table_schema = '" +
               db.name() + "'") > 5 &&
           rows(
               "SELECT partition_description AS n FROM information_schema.partitions WHERE table_schema "
               "= '" +
               db.name() +
               "' AND partition_name IS NOT NULL GROUP BY partition_description HAVING COUNT(*) <> 2")
               .empty();
  }));
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfRetention,
                         ::testing::Values("partition.added", "purge.before_commit", "purge.after_commit",
                                           "partition.dropped", "sweep.before_commit", "sweep.after_commit"),
                         point_name);

}  // namespace
}  // namespace rung::test
