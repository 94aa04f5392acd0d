// Shared by the tests of this folder: a schema full of rows.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "src/store/mysql/mysql_store.h"
#include "tests/support/mysql.h"

namespace rung::test {

// 40,000 tasks of the last 30 days with two or three attempts each, by plain SQL. It is 18:00 on 2026-09-10
// for the schema's connection from then on, so that "today" holds the same rows at any time of the day.
inline void fill(MysqlSchema& schema) {
  schema.exec("SET timestamp = 1789063200");
  const std::string digits =
      "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL "
      "SELECT 5 "
      "UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
  schema.exec(
      "CREATE TABLE numbers (n INT PRIMARY KEY) AS SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * "
      "f.d AS n "
      "FROM " +
      digits + " a, " + digits + " b, " + digits + " c, " + digits + " e, " + digits + " f WHERE f.d < 4");
  schema.exec(
      "INSERT INTO rung_nodes (id, name, incarnation, started_at, seen_at, expires_at, version, address) "
      "VALUES (1, 'sidecar-1', 1, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), "
      "UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, '0.1.0', 'h:1')");
  schema.exec(
      "UPDATE rung_shards SET owner = 1, epoch = 1, expires_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE id "
      "< 60");
  schema.exec(
      "INSERT INTO rung_tasks (id, shard, state, next_at, attempt, level, levels, ladder, node, queue, "
      "message_id, "
      "first_failed_at, created_at, finished_at, finished_by, last_error, error_type, body_bytes) "
      "SELECT n + 1, n % 64, "
      "  ELT(1 + n % 20, 'scheduled', 'publishing', 'awaiting', 'parked', 'cancelled', 'succeeded', "
      "'succeeded', "
      "  'succeeded', 'succeeded', 'succeeded', 'succeeded', 'succeeded', 'succeeded', 'succeeded', "
      "'succeeded', "
      "  'succeeded', 'succeeded', 'succeeded', 'succeeded', 'succeeded'), "
      "  IF(n % 20 < 3, UTC_TIMESTAMP(3) + INTERVAL (n - 2000) MINUTE, NULL), 2 + n % 2, 2 + n % 2, 9, "
      "'default', "
      "  IF(n % 3 = 0, 0, 1), CONCAT('queue-', n % 17), CONCAT('', n), "
      "  UTC_TIMESTAMP(3) - INTERVAL (40000 - n) * 65 SECOND, UTC_TIMESTAMP(3) - INTERVAL (40000 - n) * 65 "
      "SECOND, "
      "  IF(n % 20 < 3, NULL, UTC_TIMESTAMP(3) - INTERVAL (40000 - n) * 64 SECOND), "
      "  IF(n % 20 < 5, NULL, IF(n % 2 = 0, 'reported', 'presumed')), CONCAT('timeout after ', n, ' ms'), "
      "'Timeout', 100 "
      "FROM numbers");
  schema.exec(
      "INSERT INTO rung_attempts (task_id, attempt, level, due_at, published_at, outcome, outcome_at, error, "
      "node) "
      "SELECT t.id, a.n, a.n, t.created_at + INTERVAL a.n * 30 SECOND, "
      "  IF(t.state = 'publishing' AND a.n = t.attempt, NULL, t.created_at + INTERVAL a.n * 30000000 + t.id "
      "% 1000 * 1000 MICROSECOND), "
      "  IF(a.n < t.attempt, 'failed', IF(t.state = 'succeeded', 'succeeded', 'pending')), t.finished_at, "
      "  IF(a.n < t.attempt, t.last_error, ''), 1 "
      "FROM rung_tasks t JOIN numbers a ON a.n BETWEEN 1 AND 3 AND a.n <= t.attempt");
  schema.exec("INSERT INTO rung_bodies SELECT id, '{}', NULL, '{}', 'x' FROM rung_tasks");
  schema.exec(
      "UPDATE rung_tasks SET kind = IF(id % 4 = 1, 'delay', 'retry'), version = 1 + attempt, "
      "tag = ELT(1 + id % 4, 'order.new', 'order.close', 'coupon.reminder', '')");
  // Half of the delays never failed.
  schema.exec(
      "UPDATE rung_tasks SET first_failed_at = '1970-01-01', level = 0 WHERE kind = 'delay' AND id % 8 = 1");
  schema.exec(
      "UPDATE rung_attempts SET executor = CONCAT('app-', task_id % 7, ':8080') WHERE outcome <> 'pending'");
  schema.exec(
      "INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) "
      "SELECT finished_at, CONCAT(ELT(1 + id % 2, 'alice', 'bob'), '@host (cli)'), 'cancel', id, "
      "'{\"state\": \"scheduled\"}', '{\"state\": \"cancelled\"}' FROM rung_tasks WHERE state = 'cancelled'");
  schema.exec(
      "INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) VALUES "
      "(UTC_TIMESTAMP(3) - INTERVAL 20 DAY, 'alice@host (cli)', 'fire', 4712, '{}', '{}')");
  schema.exec(
      "INSERT INTO rung_bulks (action, state, filter, reason, who, total, done, applied, refused, "
      "created_at) VALUES "
      "('cancel', 'paused', '--queue queue-3', '', 'alice@host (cli)', 200, 50, 48, 2, UTC_TIMESTAMP(3))");
  schema.exec("DROP TABLE numbers");
  schema.query("ANALYZE TABLE rung_tasks, rung_attempts, rung_bodies");
}

}  // namespace rung::test
