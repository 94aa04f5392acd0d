// rung migrate: what it says, two at once, and a process that is killed between any two statements.
#include <cstdlib>
#include <thread>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/url.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using testing::HasSubstr;

class Migrate : public CliTest {
 protected:
  void write_config_of(const std::string& user) {
    Url url = *parse_url(db.url());
    url.user = user;
    std::ofstream(config_path()) << "store: { url: \"" << format_url(url) << "\" }\n"
                                 << "broker: { url: \"" << test::amqp_url() << "\" }\n";
  }
};

TEST_F(Migrate, CreatesTheSchemaAndThenHasNothingToDo) {
  const Ran before = rung({"list"});
  EXPECT_EQ(before.exit, 1);
  EXPECT_THAT(before.err, HasSubstr("rung migrate"));
  EXPECT_EQ(rung({"migrate"}).out, "schema created\n");
  EXPECT_EQ(rung({"migrate"}).out, "schema is up to date\n");
  EXPECT_EQ(rung_json({"migrate"})["created"], "");
}

TEST_F(Migrate, AUserWhoMayNotCreateIsRefused) {
  db.open_store();
  db.exec("DELETE FROM rung_schema");
  const std::string user = db.name().substr(0, 32);
  db.exec("CREATE USER '" + user + "'@'%'");
  db.exec("GRANT SELECT ON `" + db.name() + "`.* TO '" + user + "'@'%'");
  write_config_of(user);
  const Ran refused = rung({"migrate"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("denied"));
  db.exec("DROP USER '" + user + "'@'%'");
}

TEST_F(Migrate, OfTwoAtOnceOneCreatesTheSchema) {
  std::vector<std::string> created(2);
  std::vector<std::thread> threads;
  for (std::string& one : created)
    threads.emplace_back([&] { one = rung_json({"migrate"})["created"].get<std::string>(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created[0] + created[1], "schema");
}

TEST_F(Migrate, ASchemaOfALaterVersionIsRefusedAndTheErrorSaysWhatToDo) {
  db.open_store();
  db.exec("INSERT INTO rung_schema VALUES (99, UTC_TIMESTAMP(3))");
  for (const char* word : {"migrate", "list", "run"}) {
    const Ran ran = rung({word});
    EXPECT_EQ(ran.exit, 1) << word;
    EXPECT_THAT(ran.err, HasSubstr("the schema has version 99, this program knows up to " +
                                   std::to_string(sql::kSchemaVersion)));
    EXPECT_THAT(ran.err, HasSubstr("restore the backup"));
  }
}

// Kills `rung migrate` behind each statement in turn, and runs it again: the schema is the same as without a
// crash.
TEST_F(Migrate, KilledBetweenAnyTwoStatementsItGoesOnTheNextTime) {
  ASSERT_TRUE(kFailpoints) << "built without RUNG_FAILPOINTS";
  for (std::size_t n = 1; n <= sql::schema().size(); ++n) {
    setenv("RUNG_FAILPOINT", ("migrate.statement:" + std::to_string(n)).c_str(), 1);
    const Ran ran = rung({"migrate"});
    unsetenv("RUNG_FAILPOINT");
    ASSERT_EQ(ran.exit, 128 + SIGKILL) << "statement " << n << ": " << ran.out << ran.err;
  }
  EXPECT_EQ(rung({"migrate"}).out, "schema created\n");
  db.open_store();
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
}

}  // namespace
}  // namespace rung::cli
