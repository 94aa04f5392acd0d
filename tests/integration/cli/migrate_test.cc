// rung migrate: a later schema, and a process that is killed between any two statements. The rest:
// sql/migrate_test.cc.
#include <csignal>
#include <cstdlib>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

class Migrate : public CliTest {};

TEST_F(Migrate, ASchemaOfALaterVersionIsRefusedAndTheErrorSaysWhatToDo) {
  db.open_store();
  db.exec("REPLACE INTO rung_settings VALUES ('schema_version', '99')");
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
