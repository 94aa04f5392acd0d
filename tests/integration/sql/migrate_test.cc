#include <atomic>
#include <thread>

#include "sql/sql.h"
#include "src/core/base/url.h"
#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

TEST(Migrate, FromNothingAndOnceOnly) {
  MysqlSchema schema;
  const auto store = open_mysql_store(schema.options(), test_clock());
  const auto before = result_of([&] { store->check_schema(); });
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().kind, Error::Kind::permanent);
  EXPECT_THAT(before.error().message, testing::HasSubstr("rung migrate"));
  EXPECT_EQ(store->migrate(), "schema");
  store->check_schema();
  EXPECT_EQ(store->migrate(), "");
  schema.exec("USE " + schema.name());
  EXPECT_EQ(schema.value("SELECT value FROM rung_settings WHERE name = 'schema_version'"),
            std::to_string(sql::kSchemaVersion));
  EXPECT_EQ(schema.value("SELECT COUNT(*) FROM rung_shards"), std::to_string(kShards));
}

TEST(Migrate, OfManyAtOnceOneCreatesTheSchema) {
  MysqlSchema schema;
  std::vector<std::thread> threads;
  std::atomic<int> created{0}, failed{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      try {
        const auto store = open_mysql_store(schema.options(), test_clock());
        if (!store->migrate().empty()) ++created;
        store->check_schema();
      } catch (const StoreError&) {
        ++failed;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(created, 1);
}

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

}  // namespace
}  // namespace rung::test
