// Creates history that is some days old, by plain SQL, for tests of retention. Thread: one at a time, as
// MysqlSchema.
#pragma once

#include <string>

#include "src/core/base/ids.h"
#include "tests/support/mysql.h"

namespace rung::test {

inline constexpr int kOldOver = 1200, kOldBesideParked = 600;

// REQUIRES: a migrated schema; its first partition holds everything old. Two partitions are split off it:
// `a`, the days until four days ago, and `b`, the day after it. In a: kOldOver succeeded tasks with two
// attempts and a body each. In b: kOldBesideParked of them and one that is parked, whose id is returned.
inline std::string add_old_rows(MysqlSchema& schema) {
  schema.exec("USE " + schema.name());
  schema.exec("SET time_zone = '+00:00'");
  const auto floor_of = [&](const std::string& time) {
    return schema.value("SELECT CAST((UNIX_TIMESTAMP(" + time + ") * 1000 - " + std::to_string(kIdEpochMs) +
                        ") * 4194304 AS SIGNED)");
  };
  const std::string first = floor_of("UTC_DATE() - INTERVAL 5 DAY"),
                    second = floor_of("UTC_DATE() - INTERVAL 4 DAY"),
                    third = floor_of("UTC_DATE() - INTERVAL 3 DAY");
  for (const std::string table : {"rung_attempts", "rung_bodies"}) {
    const std::string end = schema.value(
        "SELECT partition_description FROM information_schema.partitions WHERE table_schema = DATABASE() AND "
        "table_name = '" +
        table + "' AND partition_name = 'd0'");
    schema.exec("ALTER TABLE " + table + " REORGANIZE PARTITION d0 INTO (PARTITION a VALUES LESS THAN (" +
                second + "), PARTITION b VALUES LESS THAN (" + third + "), PARTITION d0 VALUES LESS THAN (" +
                end + "))");
  }
  const auto fill = [&](const std::string& from, int many, const std::string& state, int days) {
    const std::string seq = numbers(many);
    const std::string time = "UTC_DATE() - INTERVAL " + std::to_string(days) + " DAY",
                      id = from + " + seq * 4194304";
    schema.exec(
        "INSERT INTO rung_tasks (id, shard, state, attempt, queue, message_id, first_failed_at, created_at, "
        "finished_at) SELECT " +
        id + ", seq % 64, '" + state + "', 2, 'old', CONCAT('m', seq), " + time + ", " + time + ", " + time +
        " + INTERVAL seq SECOND FROM " + seq);
    schema.exec("INSERT INTO rung_bodies SELECT " + id + ", '{}', NULL, '{}', 'old body' FROM " + seq);
    schema.exec("INSERT INTO rung_attempts (task_id, attempt, level, due_at, outcome) SELECT " + from +
                " + s.seq * 4194304, a.seq, a.seq, " + time + ", 'failed' FROM " + numbers(many, "s") + ", " +
                numbers(2, "a"));
  };
  std::string a = first, b = second;
  fill(a, kOldOver, "succeeded", 5);
  fill(b, kOldBesideParked, "succeeded", 4);
  const std::string parked = std::to_string(std::stoll(b) + 100'000LL * 4194304);
  fill(std::to_string(std::stoll(parked) - 4194304), 1, "parked", 4);
  return parked;
}

}  // namespace rung::test
