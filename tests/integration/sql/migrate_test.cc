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
  const auto store = must(open_mysql_store(schema.options(), test_clock()));
  const auto before = store->check_schema();
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().kind, Error::Kind::permanent);
  EXPECT_THAT(before.error().message, testing::HasSubstr("rung migrate"));
  EXPECT_EQ(must(store->migrate()), "schema");
  EXPECT_TRUE(store->check_schema());
  EXPECT_EQ(must(store->migrate()), "");
  schema.exec("USE " + schema.name());
  EXPECT_EQ(schema.value("SELECT version FROM rung_schema"), std::to_string(sql::kSchemaVersion));
  EXPECT_EQ(schema.value("SELECT COUNT(*) FROM rung_shards"), std::to_string(kShards));
}

TEST(Migrate, OfManyAtOnceOneCreatesTheSchema) {
  MysqlSchema schema;
  std::vector<std::thread> threads;
  std::atomic<int> created{0}, failed{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto store = open_mysql_store(schema.options(), test_clock());
      auto done = store ? (*store)->migrate() : tl::unexpected(store.error());
      if (done && !done->empty()) ++created;
      if (!done || !(*store)->check_schema()) ++failed;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(created, 1);
}

TEST(Migrate, OneThatWasCutShortIsRunAgain) {
  MysqlSchema schema;
  const auto store = must(open_mysql_store(schema.options(), test_clock()));
  schema.exec("USE " + schema.name());
  // As a kill -9 would leave it: some statements done, nothing recorded.
  for (std::size_t i = 0; i < 3; ++i) schema.exec(sql::schema().at(i));
  EXPECT_EQ(must(store->migrate()), "schema");
  // Done, but not recorded.
  schema.exec("DELETE FROM rung_schema");
  EXPECT_EQ(must(store->migrate()), "schema");
  EXPECT_TRUE(store->check_schema());
}

TEST(Migrate, ANewerSchemaIsRefusedByName) {
  MysqlSchema schema;
  const auto store = schema.open_store();
  schema.exec("INSERT INTO rung_schema VALUES (99, UTC_TIMESTAMP(3))");
  for (const Error& error : {store->check_schema().error(), store->migrate().error()}) {
    EXPECT_EQ(error.kind, Error::Kind::permanent);
    EXPECT_THAT(error.message, testing::HasSubstr("99"));
    EXPECT_THAT(error.message, testing::HasSubstr("up to " + std::to_string(sql::kSchemaVersion)));
  }
}

TEST(Migrate, WithoutMigrateNoDatabaseIsMade) {
  MysqlSchema schema;
  StoreOptions options = schema.options();
  options.migrate = false;
  const auto store = must(open_mysql_store(options, test_clock()));
  EXPECT_EQ(schema.value("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '" +
                         schema.name() + "'"),
            "0");
  EXPECT_THAT(store->check_schema().error().message, testing::HasSubstr("rung migrate"));
  EXPECT_EQ(must(store->migrate()), "schema");  // as `rung migrate` does
  EXPECT_TRUE(store->check_schema());
}

class User {  // a database user of its own, gone at the end
 public:
  User(MysqlSchema& schema, const std::string& grant) : schema_(schema), name_(schema.name().substr(0, 32)) {
    schema_.exec("CREATE USER '" + name_ + "'@'%' IDENTIFIED BY 's3cret-of-it'");
    if (!grant.empty()) schema_.exec("GRANT " + grant + " TO '" + name_ + "'@'%'");
  }
  ~User() { schema_.exec("DROP USER '" + name_ + "'@'%'"); }
  StoreOptions options(const std::string& password) const {
    Url url = must(parse_url(schema_.url()));
    url.user = name_;
    url.password = password;
    StoreOptions options;
    options.url = format_url(url);
    return options;
  }

 private:
  MysqlSchema& schema_;
  const std::string name_;
};

TEST(Migrate, AUserWhoMayNotCreateIsToldSo) {
  MysqlSchema schema;
  const User user(schema, "");
  const auto store = open_mysql_store(user.options("s3cret-of-it"), test_clock());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, Error::Kind::refused);
  EXPECT_THAT(store.error().message, testing::HasSubstr(schema.name()));
  EXPECT_THAT(store.error().message, testing::Not(testing::HasSubstr("s3cret")));
}

TEST(Migrate, AWrongPasswordIsRefusedAndNotTold) {
  MysqlSchema schema;
  const User user(schema, "");
  const auto store = open_mysql_store(user.options("s3cret-but-wrong"), test_clock());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, Error::Kind::refused);
  EXPECT_THAT(store.error().message, testing::HasSubstr("denied"));
  EXPECT_THAT(store.error().message, testing::Not(testing::HasSubstr("s3cret")));
}

TEST(Migrate, ThePasswordFilesFirstLineIsThePassword) {
  MysqlSchema schema;
  const User user(schema, "ALL ON `" + schema.name() + "`.*");
  StoreOptions options = user.options("");
  options.password_file = testing::TempDir() + schema.name();
  std::FILE* file = std::fopen(options.password_file.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("s3cret-of-it\nsecond line\n", file);
  std::fclose(file);
  EXPECT_TRUE(must(open_mysql_store(options, test_clock()))->migrate());
  std::remove(options.password_file.c_str());
  const auto gone = open_mysql_store(options, test_clock());
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, testing::HasSubstr("password file"));
}

}  // namespace
}  // namespace rung::test
