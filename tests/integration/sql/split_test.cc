#include <set>

#include "sql/sql.h"
#include "tests/integration/sql/fixture.h"

namespace rung::test {
namespace {

TEST(Sql, SplitsAtSemicolonsThatEndALineAndDropsComments) {
  EXPECT_THAT(sql::split("-- a; b\nSELECT 1,  -- one;\n  'x;y';\n\nSELECT 2\n;\n-- end\nSELECT 3"),
              testing::ElementsAre("SELECT 1,\n'x;y'", "SELECT 2\n", "SELECT 3"));
}

TEST(Sql, EveryStatementHasATextWithoutComments) {
  EXPECT_GT(sql::statement_names().size(), 40U);
  for (const auto name : sql::statement_names()) {
    const std::string_view text = sql::statement(name);
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_EQ(text.find("--"), std::string_view::npos) << name;
    EXPECT_FALSE(text.ends_with(';')) << name;
  }
}

TEST(Sql, NothingOfOneServersOwnDialect) {
  for (const auto name : sql::statement_names()) {
    for (const std::string_view word : {"RETURNING", "FOR SHARE", "NEXTVAL", " AS new ", "@@tx_isolation"}) {
      EXPECT_EQ(sql::statement(name).find(word), std::string_view::npos) << name << ' ' << word;
    }
  }
}

}  // namespace
}  // namespace rung::test
