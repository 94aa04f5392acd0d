// The views of the contract: exactly these columns, in this order, with these words.
#include <algorithm>
#include <set>
#include <string>

#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

using testing::ElementsAre;

TEST(Views, HaveTheColumnsOfTheContractInItsOrder) {
  const auto shared = MysqlSchema::shared();
  MysqlSchema& schema = *shared;
  EXPECT_THAT(schema.columns("SELECT * FROM retry_current"),
              ElementsAre("retry_id", "kind", "queue", "exchange", "routing_key", "tag", "message_id",
                          "state", "attempt", "level", "levels", "ladder", "next_due_at", "first_failed_at",
                          "created_at", "finished_at", "finished_by", "last_error", "body_bytes", "shard",
                          "node", "version", "error_type", "correlation_id", "rule", "uncounted_attempts",
                          "error_queue", "parent_id", "silence_ends_at", "silence_means", "silence_ms",
                          "max_attempts", "ladder_pinned", "by_exchange", "cause_id", "replaced_by"));
  EXPECT_THAT(
      schema.columns("SELECT * FROM retry_causes"),
      ElementsAre("cause_id", "queue", "error_type", "sample", "first_seen", "last_seen", "scheduled",
                  "parked", "succeeded", "total", "last_hour", "state", "owner", "note", "link", "worse_at"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_history"),
              ElementsAre("retry_id", "queue", "message_id", "attempt", "level", "due_at", "published_at",
                          "late_ms", "outcome", "outcome_at", "error", "node", "executor", "rule"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_by_queue"),
              ElementsAre("queue", "state", "tasks", "oldest_due_at", "overdue", "share_last_hour",
                          "in_time_last_hour", "late_last_hour", "gated_last_hour", "share_last_day",
                          "in_time_last_day", "late_last_day", "gated_last_day"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_audit"),
              ElementsAre("audit_id", "at", "who", "what", "retry_id", "before_change", "after_change",
                          "reason", "bulk_id", "part_of_bulk"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_bulks"),
              ElementsAre("bulk_id", "action", "state", "filter", "reason", "queue", "exchange",
                          "routing_key", "rate", "who", "total", "done", "applied", "refused", "created_at",
                          "finished_at", "runner", "canary", "watch_ms", "ramp", "stop_above",
                          "stopped_because", "changed_at", "changed_by", "changed_because"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_queues"),
              ElementsAre("queue", "state", "since", "until", "reason", "by", "waiting", "next_at"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_attachments"),
              ElementsAre("queue", "state", "since", "attached_at", "reason", "checked_at", "awaiting",
                          "held", "ready", "consumers"));
  EXPECT_THAT(schema.columns("SELECT * FROM retry_activity"),
              ElementsAre("minute", "queue", "failed", "retried", "succeeded"));
  for (const char* column : {"next_due_at", "first_failed_at", "created_at", "finished_at"}) {
    // MariaDB says more of a column that is computed: "datetime(3) /* mariadb-5.3 */".
    EXPECT_THAT(
        schema.value("SELECT column_type FROM information_schema.columns WHERE table_schema = DATABASE() AND "
                     "table_name = 'retry_current' AND column_name = '" +
                     std::string(column) + "'"),
        testing::StartsWith("datetime(3)"));
  }
}

// As a dump is imported. MySQL refuses a SELECT whose nameless column it has named after an expression of
// more than 64 characters.
TEST(Views, CanBeMadeFromTheirOwnDefinition) {
  MysqlSchema schema;
  schema.open_store();
  std::set<std::string> made;
  for (const auto& [name, definition] : schema.definitions()) {
    if (!name.starts_with("retry_")) continue;
    schema.exec("DROP VIEW " + name);
    EXPECT_NO_THROW(schema.exec(definition)) << definition;
    made.insert(name);
  }
  EXPECT_THAT(made, testing::IsSupersetOf({"retry_current", "retry_history", "retry_queues"}));
}

TEST(Views, ShowWhatTheStoreWrote) {
  const auto shared = MysqlSchema::shared();
  MysqlSchema& schema = *shared;
  const auto store = open_mysql_store(schema.options(), test_clock());
  Fence fence;
  fence.node = store->register_node({"sidecar-1", "0.1.0", "h:1", 1}, Ms{3'600'000});
  const std::vector<int> shard{7};
  fence.leases = store->acquire(fence.node, 1, shard, Ms{3'600'000});
  NewTask n;
  n.task.id = {4711};
  n.task.shard = 7;
  n.task.queue = "orders";
  n.task.exchange = "shop";
  n.task.routing_key = "order.created";
  n.task.tag = "Order";
  n.task.message_id = "m-1";
  n.task.ladder = "default";
  n.task.levels = 9;
  n.task.next_at = EpochMs{1'789'000'000'123};
  n.task.first_failed_at = n.task.created_at = EpochMs{1'788'999'999'001};
  n.task.last_error = "boom";
  n.task.body_bytes = 3;
  n.message = std::make_shared<const Message>(Message{{}, {}, "abc"});
  n.origin_json = "{}";
  store->insert(std::span(&n, 1), fence);
  EXPECT_THAT(
      schema.query("SELECT * FROM retry_current"),
      ElementsAre(ElementsAre("4711", "retry", "orders", "shop", "order.created", "Order", "m-1", "scheduled",
                              "0", "1", "9", "default", "2026-09-10 00:26:40.123", "2026-09-10 00:26:39.001",
                              "2026-09-10 00:26:39.001", "NULL", "NULL", "boom", "3", "7", "NULL", "1", "",
                              "NULL", "", "0", "", "NULL", "NULL", "NULL", "NULL", "0", "0", "0",
                              testing::MatchesRegex("[0-9a-f]{12}"), "NULL")));
  EXPECT_THAT(schema.query("SELECT * FROM retry_by_queue"),
              ElementsAre(ElementsAre("orders", "scheduled", "1", "2026-09-10 00:26:40.123", "1", "NULL",
                                      "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL")));

  // As decide() would: an attempt confirmed 1.5 s after it was due, now waiting for a word.
  const Event event{n.task.id, event::Claim{}};
  store->apply(std::span(&event, 1), fence, [](const Task& task, const Happening&, const Circumstances& at) {
    Decision d{Decision::Verdict::applied, "", task, Attempt{}, false};
    d.task.state = State::awaiting;
    d.task.attempt = 1;
    d.task.node = at.node;
    d.task.next_at = at.now + Ms{600'000};
    d.attempt->task = task.id;
    d.attempt->due_at = *task.next_at;
    d.attempt->published_at = *task.next_at + Ms{1500};
    d.attempt->node = at.node;
    return d;
  });
  EXPECT_THAT(schema.query("SELECT * FROM retry_history"),
              ElementsAre(ElementsAre("4711", "orders", "m-1", "1", "1", "2026-09-10 00:26:40.123",
                                      "2026-09-10 00:26:41.623", "1500", "pending", "NULL", "", "sidecar-1",
                                      "", "")));
  // The end of silence is no due time.
  EXPECT_EQ(schema.value("SELECT next_due_at FROM retry_current"), "NULL");
  EXPECT_NE(schema.value("SELECT silence_ends_at FROM retry_current"), "NULL");
  EXPECT_EQ(schema.value("SELECT node FROM retry_current"), "sidecar-1");
  EXPECT_EQ(schema.value("SELECT state FROM retry_current"), "awaiting");
  // What has not failed has no such time.
  schema.exec("UPDATE rung_tasks SET first_failed_at = '1970-01-01'");
  EXPECT_EQ(schema.value("SELECT first_failed_at FROM retry_current"), "NULL");
}

TEST(Views, ThePromisesOfAQueueAreOnEachOfItsRows) {
  const auto shared = MysqlSchema::shared();
  MysqlSchema& schema = *shared;
  schema.exec(
      "INSERT INTO rung_tasks (id, queue, state, next_at) VALUES (1, 'q', 'scheduled', NULL), "
      "(2, 'q', 'parked', NULL), (3, 'q ', 'parked', NULL), (4, 'none', 'parked', NULL), "
      "(5, 'day', 'parked', NULL), (6, 'gated', 'parked', NULL)");
  const auto bucket = [&](const std::string& queue, int minutes, const std::string& ago,
                          const std::string& counts) {
    schema.exec("INSERT INTO rung_promises VALUES ('" + queue + "', " + std::to_string(queue.size()) + ", " +
                std::to_string(minutes) + ", UTC_TIMESTAMP(3) - INTERVAL " + ago + ", " + counts + ")");
  };
  bucket("q", 5, "1 MINUTE", "1, 0, 2");
  bucket("q", 5, "6 MINUTE", "2, 1, 2");
  bucket("q", 5, "61 MINUTE", "100, 100, 100");
  bucket("q", 60, "1 MINUTE", "3, 1, 4");
  bucket("q", 60, "3 HOUR", "6, 2, 0");
  bucket("q", 60, "25 HOUR", "100, 100, 100");
  bucket("q ", 5, "1 MINUTE", "0, 1, 0");
  bucket("q ", 60, "1 MINUTE", "0, 1, 0");
  bucket("day", 60, "3 HOUR", "99999, 1, 0");
  bucket("gated", 5, "1 MINUTE", "0, 0, 1");
  bucket("gated", 60, "1 MINUTE", "0, 0, 1");
  EXPECT_THAT(
      schema.query("SELECT queue, tasks, share_last_hour, in_time_last_hour, late_last_hour, "
                   "gated_last_hour, share_last_day, in_time_last_day, late_last_day, gated_last_day "
                   "FROM retry_by_queue ORDER BY queue, CHAR_LENGTH(queue), state"),
      ElementsAre(ElementsAre("day", "1", "NULL", "0", "0", "0", "0.99999", "99999", "1", "0"),
                  ElementsAre("gated", "1", "NULL", "0", "0", "1", "NULL", "0", "0", "1"),
                  ElementsAre("none", "1", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"),
                  ElementsAre("q", "1", "0.75", "3", "1", "4", "0.75", "9", "3", "4"),
                  ElementsAre("q", "1", "0.75", "3", "1", "4", "0.75", "9", "3", "4"),
                  ElementsAre("q ", "1", "0", "0", "1", "0", "0", "0", "1", "0")));
}

TEST(Views, DoNotDependOnTheReadersTimeZone) {
  const auto shared = MysqlSchema::shared();
  MysqlSchema& schema = *shared;
  schema.exec(
      "INSERT INTO rung_tasks (id, queue, next_at) VALUES (1, 'q', UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)");
  schema.exec("SET time_zone = '+09:00'");
  EXPECT_EQ(schema.value("SELECT overdue FROM retry_by_queue"), "0");
  schema.exec("SET time_zone = '-09:00'");
  EXPECT_EQ(schema.value("SELECT overdue FROM retry_by_queue"), "0");
}

}  // namespace
}  // namespace rung::test
