// The schema that tests share: whatever a test did, the next one finds it as if it was migrated just now.
#include "tests/integration/sql/fixture.h"

namespace rung::test {
namespace {

// Everything in the schema as text, and what is not part of a test's world left out: when it was migrated.
std::string content(MysqlSchema& schema) {
  std::string out;
  for (const auto& table : schema.query("SHOW TABLES")) {
    const std::string definition = schema.query("SHOW CREATE TABLE " + table[0]).at(0).at(1);
    out += definition + "\n";
    const std::string columns = table[0] == "rung_schema" ? "version, name" : "*";
    if (!definition.starts_with("CREATE TABLE")) continue;
    for (const auto& row : schema.query("SELECT " + columns + " FROM " + table[0])) {
      for (const auto& cell : row) out += cell + "|";
      out += "\n";
    }
  }
  return out;
}

std::string of_a_new_one() {
  MysqlSchema schema;
  schema.open_store();
  return content(schema);
}

TEST(SharedSchema, RowsCountersAndPartitionsAreThoseOfANewSchema) {
  std::string name;
  {
    const auto schema = MysqlSchema::shared();
    name = schema->name();
    EXPECT_EQ(content(*schema), of_a_new_one());
    schema->exec("SET timestamp = 1789063200");
    schema->exec("INSERT INTO rung_tasks (id) VALUES (1), (9000000000000000001)");
    schema->exec("INSERT INTO rung_task_headers VALUES (1, 'name', 'value')");
    for (const std::string id : {"1", "9000000000000000001"}) {
      schema->exec("INSERT INTO rung_bodies VALUES (" + id + ", '{}', NULL, '{}', 'x')");
      schema->exec("INSERT INTO rung_attempts (task_id, attempt, level, due_at) VALUES (" + id +
                   ", 1, 1, UTC_TIMESTAMP(3))");
    }
    schema->exec(
        "INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) "
        "VALUES (UTC_TIMESTAMP(3), '', '', 1, '', '')");
    schema->exec("DELETE FROM rung_audit");
    schema->exec("UPDATE rung_settings SET value = '6'");
    schema->exec("DELETE FROM rung_shards WHERE id > 3");
    schema->exec("BEGIN");
    schema->exec("INSERT INTO rung_events (at, kind, detail) VALUES (UTC_TIMESTAMP(3), 'test', '')");
    schema->exec("ROLLBACK");
    for (const std::string table : {"rung_attempts", "rung_bodies"}) {
      schema->exec("ALTER TABLE " + table + " REORGANIZE PARTITION rest INTO " +
                   "(PARTITION p1 VALUES LESS THAN (9000000000000000000), PARTITION rest VALUES LESS THAN "
                   "MAXVALUE)");
      schema->exec("ALTER TABLE " + table + " DROP PARTITION d0");
    }
  }
  const auto schema = MysqlSchema::shared();
  EXPECT_EQ(schema->name(), name) << "it need not be migrated again";
  EXPECT_EQ(content(*schema), of_a_new_one());
  EXPECT_EQ(schema->value("SELECT UTC_DATE() = '2026-09-10'"), "0")
      << "the clock of the test's session ended with it";
}

TEST(SharedSchema, ChangedTablesAndViewsMakeAnotherOne) {
  const std::string as_new = of_a_new_one();
  for (const std::string change :
       {"CREATE TABLE more (id INT PRIMARY KEY)", "DROP TABLE rung_rates", "DROP VIEW retry_queues"}) {
    MysqlSchema::shared()->exec(change);
    EXPECT_EQ(content(*MysqlSchema::shared()), as_new) << change;
  }
}

TEST(SharedSchema, IsTakenByOneAtATime) {
  const auto schema = MysqlSchema::shared();
  EXPECT_THROW(MysqlSchema::shared(), std::logic_error);
}

}  // namespace
}  // namespace rung::test
