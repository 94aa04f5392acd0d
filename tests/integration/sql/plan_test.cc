// mysql/migrations/plan.json says what each migration does to big tables. The server must agree: MariaDB and
// MySQL differ.
#include <cppconn/exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sql/sql.h"
#include "tests/integration/sql/fixture.h"

namespace rung::test {
namespace {

using sql::TableWork;

const std::vector<std::string> kBigTables{"rung_tasks", "rung_attempts", "rung_bodies"};

// The table that a statement alters, or that it prepares to alter; "" = none of the big ones.
std::string altered(const std::string& statement) {
  std::smatch found;
  if (!std::regex_search(statement, found, std::regex("ALTER TABLE (\\w+)"))) return {};
  const std::string table = found[1];
  return std::ranges::find(kBigTables, table) == kBigTables.end() ? std::string() : table;
}

TEST(MigrationPlans, EachSaysWhatItDoesAndNamesTheBigTablesThatItAlters) {
  for (const sql::Migration& migration : sql::migrations()) {
    EXPECT_FALSE(migration.what.empty()) << migration.name;
    EXPECT_TRUE(migration.old_may_run || !migration.old_note.empty()) << migration.name << ": say why not";
    std::set<std::string> alters, planned;
    for (const std::string& statement : migration.statements) {
      if (const std::string table = altered(statement); !table.empty()) alters.insert(table);
    }
    for (const sql::TableChange& change : migration.changes) {
      planned.insert(change.table);
      for (const sql::TableChange::Cost& cost : {change.mariadb, change.mysql})
        EXPECT_GT(cost.seconds, 0) << migration.name << ": not measured";
    }
    EXPECT_EQ(planned, alters) << migration.name;
  }
}

// Runs the statement in the cheapest way that the server accepts for it, and returns that way. MySQL does not
// tell an index from a rebuild.
TableWork run_cheaply(MysqlSchema& schema, const std::string& statement) {
  static const std::regex kHead("^ALTER TABLE \\w+\\s");
  // MariaDB accepts ALGORITHM=INSTANT for it and copies the table all the same: 2.8 s for 300,000 rows.
  const bool partitions = statement.find(" PARTITION BY ") != std::string::npos;
  std::vector<std::pair<TableWork, std::string>> ways;
  if (!partitions) ways.emplace_back(TableWork::instant, "ALGORITHM=INSTANT");
  if (schema.is_mariadb()) ways.emplace_back(TableWork::index, "ALGORITHM=NOCOPY, LOCK=NONE");
  ways.emplace_back(TableWork::rebuild, "ALGORITHM=INPLACE, LOCK=NONE");
  for (const auto& [work, way] : ways) {
    try {
      schema.exec(std::regex_replace(statement, kHead, "$&" + way + (partitions ? " " : ", "),
                                     std::regex_constants::format_first_only));
      return work;
    } catch (const ::sql::SQLException&) {
      continue;  // not in this way
    }
  }
  schema.exec(statement);
  return TableWork::copy;
}

TEST(MigrationPlans, TheServerDoesWhatTheyPromise) {
  MysqlSchema schema;
  schema.make(0);
  const bool mariadb = schema.is_mariadb();
  for (const sql::Migration& migration : sql::migrations()) {
    std::map<std::string, TableWork> done;  // the worst, by table
    std::string prepared;
    for (const std::string& statement : migration.statements) {
      if (statement.starts_with("SET @rung_ddl")) {
        schema.exec(statement);
        prepared = schema.value("SELECT @rung_ddl");
        continue;
      }
      const bool executes = statement.starts_with("EXECUTE");
      const std::string& text = executes ? prepared : statement;
      const std::string table = executes || statement.starts_with("ALTER") ? altered(text) : std::string();
      if (table.empty()) {
        schema.exec(statement);
      } else {
        done[table] = std::max(done[table], run_cheaply(schema, text));
      }
    }
    for (const sql::TableChange& change : migration.changes) {
      const TableWork planned = mariadb ? change.mariadb.work : change.mysql.work;
      const bool same = done[change.table] == planned ||
                        (!mariadb && planned == TableWork::index && done[change.table] == TableWork::rebuild);
      EXPECT_TRUE(same) << migration.name << ", " << change.table << ": planned " << sql::to_word(planned)
                        << ", the server does " << sql::to_word(done[change.table]);
    }
  }
}

}  // namespace
}  // namespace rung::test
