// rung migrate: the plan, what is applied, two at once, and a process that is killed between any two
// statements.
#include <cstdlib>
#include <thread>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/url.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kFirstRelease = 10;  // the last migration of 0.1.0

class Migrate : public CliTest {
 protected:
  // `rung migrate ...` as another user of the database.
  void write_config_of(const std::string& user) {
    Url url = *parse_url(db.url());
    url.user = user;
    std::ofstream(config_path()) << "store: { url: \"" << format_url(url) << "\" }\n"
                                 << "broker: { url: \"" << test::amqp_url() << "\" }\n";
  }
  void fill(int tasks) {
    db.exec("INSERT INTO rung_tasks (id, queue) SELECT seq, 'q' FROM " + test::numbers(tasks));
    db.query("ANALYZE TABLE rung_tasks");
  }
};

TEST_F(Migrate, PlanOfAnEmptyServerHasEverythingAndMakesNothing) {
  const Ran ran = rung({"migrate", "--plan"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  for (const sql::Migration& migration : sql::migrations())
    EXPECT_THAT(ran.out, HasSubstr(std::string(migration.name) + ": " + migration.what));
  EXPECT_THAT(ran.out, HasSubstr("the schema has version 0"));
  EXPECT_EQ(
      db.value("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '" + db.name() + "'"),
      "0");
}

TEST_F(Migrate, PlanOfTheFirstReleaseSaysTimeDiskAndWhetherOlderSidecarsMayRun) {
  db.make(kFirstRelease);
  const Ran ran = rung({"migrate", "--plan"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("the schema has version 10, this program needs version " +
                                 std::to_string(sql::newest_version())));
  EXPECT_THAT(ran.out, Not(HasSubstr("0010_broker_link")));
  EXPECT_THAT(ran.out, HasSubstr("0012_pauses: pauses of queues\n  older sidecars: may keep running; they "
                                 "publish what is paused\n"));
  EXPECT_THAT(ran.out, HasSubstr("\ntime: less than 1 s, writes do not wait\n"));
  EXPECT_THAT(ran.out, HasSubstr("nothing was changed; to apply: rung migrate\n"));
  EXPECT_EQ(db.value("SELECT MAX(version) FROM rung_schema"), "10");
}

TEST_F(Migrate, PlanEstimatesByTheRowsOfThisDatabase) {
  db.make(4);
  fill(20'000);
  const json plan = rung_json({"migrate", "--plan"});
  EXPECT_EQ(plan["schema_version"], 4);
  EXPECT_FALSE(plan["older_sidecars_may_run"]);
  const json& stage = plan["pending"][1];
  ASSERT_EQ(stage["migration"], "0006_stage");
  EXPECT_FALSE(stage["older_sidecars_may_run"]);
  EXPECT_THAT(stage["note"], HasSubstr("read the whole table"));
  const json& tasks = stage["tables"][0];
  EXPECT_EQ(tasks["table"], "rung_tasks");
  EXPECT_EQ(tasks["work"], "copy");
  EXPECT_TRUE(tasks["writes_wait"]);
  // An estimate of InnoDB: far from exact.
  EXPECT_GT(tasks["rows"], 10'000);
  EXPECT_LT(tasks["rows"], 40'000);
  EXPECT_DOUBLE_EQ(tasks["seconds"].get<double>(),
                   tasks["rows"].get<double>() * tasks["seconds_per_million_rows"].get<double>() / 1e6);
  EXPECT_GT(tasks["disk_bytes"], 20'000 * 100);
  EXPECT_GE(plan["seconds"], plan["seconds_writes_wait"]);
  EXPECT_GT(plan["seconds_writes_wait"], 0);
}

TEST_F(Migrate, PlanNeedsOnlyTheRightToRead) {
  db.make(kFirstRelease);
  const std::string user = db.name().substr(0, 32);
  db.exec("CREATE USER '" + user + "'@'%'");
  db.exec("GRANT SELECT ON `" + db.name() + "`.* TO '" + user + "'@'%'");
  write_config_of(user);
  const Ran plan = rung({"migrate", "--plan"});
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("0011_rules"));
  const Ran applied = rung({"migrate"});
  EXPECT_EQ(applied.exit, 1);
  EXPECT_THAT(applied.err, HasSubstr("denied"));
  db.exec("DROP USER '" + user + "'@'%'");
}

TEST_F(Migrate, AppliesWithTimesAndThenHasNothingToDo) {
  db.make(kFirstRelease);
  const Ran ran = rung({"migrate"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out,
              testing::ContainsRegex("^applied 0011_rules \\([0-9.]+m?s\\)\napplied 0012_pauses \\("));
  EXPECT_THAT(ran.out, testing::EndsWith("schema is now up to date\n"));
  EXPECT_EQ(rung({"migrate"}).out, "schema is up to date\n");
  const Ran plan = rung({"migrate", "--plan"});
  EXPECT_EQ(plan.exit, 0);
  EXPECT_THAT(plan.out, testing::EndsWith("schema is up to date: nothing to apply\n"));
  EXPECT_EQ(rung_json({"migrate", "--plan"})["pending"], json::array());
  EXPECT_EQ(rung_json({"migrate"})["applied"], json::array());
}

TEST_F(Migrate, OfTwoAtOnceEachMigrationIsAppliedByOne) {
  std::vector<json> applied(2);
  std::vector<std::thread> threads;
  for (json& one : applied) threads.emplace_back([&] { one = rung_json({"migrate"})["applied"]; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(applied[0].size() + applied[1].size(), sql::migrations().size());
  EXPECT_EQ(rung({"migrate"}).out, "schema is up to date\n");
}

TEST_F(Migrate, ASchemaOfALaterVersionIsRefusedAndTheErrorSaysWhatToDo) {
  db.open_store();
  db.exec("INSERT INTO rung_schema VALUES (99, '0099_of_tomorrow', UTC_TIMESTAMP(3))");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"migrate", "--plan"}, {"migrate"}, {"list"}, {"run"}}) {
    const Ran ran = rung(words);
    EXPECT_EQ(ran.exit, 1) << words[0];
    EXPECT_THAT(ran.err, HasSubstr("the schema has version 99, this program knows up to " +
                                   std::to_string(sql::newest_version())));
    EXPECT_THAT(ran.err, HasSubstr("restore the backup"));
  }
}

// Kills `rung migrate` behind each statement of each migration in turn, the record of the migration included,
// and runs it again: the schema is the same as without a crash, and no row is lost.
TEST_F(Migrate, KilledBetweenAnyTwoStatementsItGoesOnTheNextTime) {
  ASSERT_TRUE(kFailpoints) << "built without RUNG_FAILPOINTS";
  int runs = 0;
  db.make(0);
  for (const sql::Migration& migration : sql::migrations()) {
    for (std::size_t n = 1; n <= migration.statements.size(); ++n) {
      setenv("RUNG_FAILPOINT", ("migrate.statement:" + std::to_string(n)).c_str(), 1);
      const Ran ran = rung({"migrate"});
      unsetenv("RUNG_FAILPOINT");
      ASSERT_EQ(ran.exit, 128 + SIGKILL)
          << migration.name << ", statement " << n << ": " << ran.out << ran.err;
      ASSERT_EQ(db.value("SELECT COALESCE(MAX(version), 0) FROM rung_schema"),
                std::to_string(migration.version - 1));
      ++runs;
    }
    // To the end of this migration and into the next one.
    setenv("RUNG_FAILPOINT", ("migrate.statement:" + std::to_string(migration.statements.size() + 1)).c_str(),
           1);
    const Ran ran = rung({"migrate"});
    unsetenv("RUNG_FAILPOINT");
    ASSERT_EQ(ran.exit, migration.version == sql::newest_version() ? 0 : 128 + SIGKILL) << ran.out << ran.err;
    ASSERT_EQ(db.value("SELECT MAX(version) FROM rung_schema"), std::to_string(migration.version));
    if (migration.version == 1) {
      db.exec("INSERT INTO rung_tasks (id, queue, message_id) SELECT seq, 'q', seq FROM " +
              test::numbers(100));
      db.exec(
          "INSERT INTO rung_attempts (task_id, attempt, level, due_at) SELECT seq, 1, 1, UTC_TIMESTAMP(3) "
          "FROM " +
          test::numbers(100));
      db.exec("INSERT INTO rung_bodies SELECT seq, '{}', NULL, '{}', 'x' FROM " + test::numbers(100));
    }
  }
  EXPECT_GT(runs, 40);
  test::MysqlSchema plain;
  plain.open_store();
  auto expected = plain.definitions(), found = db.definitions();
  for (auto* definitions : {&expected, &found}) {
    for (auto& [name, text] : *definitions) {
      for (const std::string& schema : {plain.name(), db.name()}) {
        for (std::size_t at = 0; (at = text.find(schema)) != std::string::npos;)
          text.replace(at, schema.size(), "SCHEMA");
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_history h JOIN retry_current c ON c.retry_id = h.retry_id "
                     "JOIN rung_bodies b "
                     "ON b.task_id = c.retry_id"),
            "100");
}

}  // namespace
}  // namespace rung::cli
