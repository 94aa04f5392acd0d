// Killed in the middle of retention: no half-deleted task is shown, and the next process continues.
#include "tests/integration/crash/fixture.h"
#include "tests/support/old_rows.h"

namespace rung::test {
namespace {

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
  ASSERT_TRUE(eventually(
      [&] {
        return number("SELECT COUNT(*) AS n FROM retry_current WHERE queue = 'old'") == 1 &&
               number("SELECT COUNT(*) AS n FROM rung_bodies") == 1 &&
               number("SELECT COUNT(*) AS n FROM rung_attempts") == 2;
      },
      kBound))
      << rung().log_tail();
  expect_whole();
  EXPECT_EQ(history(parked).size(), 2U);
  EXPECT_EQ(number("SELECT COUNT(*) AS n FROM information_schema.partitions WHERE table_schema = '" +
                   db.name() + "' AND partition_name = 'a'"),
            0);
  // Both tables have the same parts again, those to come too.
  ASSERT_TRUE(eventually(
      [&] {
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
      },
      kBound));
}
INSTANTIATE_TEST_SUITE_P(At, CrashOfRetention,
                         ::testing::Values("partition.added", "purge.before_commit", "purge.after_commit",
                                           "partition.dropped", "sweep.before_commit", "sweep.after_commit"),
                         point_name);

}  // namespace
}  // namespace rung::test
