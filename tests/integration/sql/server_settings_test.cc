// What an administrator sets for all sessions of a server must not break ours. On a server of its own: these
// settings are the server's.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sql/sql.h"
#include "src/core/base/url.h"
#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"
#include "tests/support/own_servers.h"

namespace rung::test {
namespace {

class ServerSettings : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* former = std::getenv("RUNG_TEST_MYSQL");
    former_ = former != nullptr ? former : "";
    const char* options = std::getenv("RUNG_DB_OPTIONS");
    setenv("RUNG_DB_OPTIONS",
           ((options != nullptr ? options : "") + std::string(" --log-bin --server-id=1")).c_str(), 1);
    servers_ = std::make_unique<OwnServers>("--db-only");
    setenv("RUNG_TEST_MYSQL", servers_->variable("RUNG_TEST_MYSQL").c_str(), 1);
  }
  static void TearDownTestSuite() {
    setenv("RUNG_TEST_MYSQL", former_.c_str(), 1);
    servers_.reset();
  }

  // A user with the rights of docs/permissions.md: no init_connect and no limit applies to a superuser.
  static StoreOptions plain_user(MysqlSchema& schema) {
    StoreOptions options = schema.options();
    options.urls = {*parse_url(schema.plain_user_url())};
    return options;
  }

  // From an empty schema to a claimed task; throws what fails.
  static void use(const StoreOptions& options) {
    const auto store = open_mysql_store(options, test_clock());
    EXPECT_EQ(store->migrate(), "schema");
    store->check_schema();
    Fence fence{store->register_node({"a", "0.1.0", "h:1", 1}, Ms{3'600'000}), {}, {}};
    std::vector<int> shards(kShards);
    for (int shard = 0; shard < kShards; ++shard) shards[static_cast<std::size_t>(shard)] = shard;
    fence.leases = store->acquire(fence.node, 1, shards, Ms{3'600'000});
    EXPECT_EQ(fence.leases.size(), shards.size());
    std::vector<NewTask> tasks(3);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].task.id = {static_cast<std::int64_t>(i) + 1};
      tasks[i].task.queue = "q";
      tasks[i].task.next_at = EpochMs{1'789'000'000'000};
      tasks[i].message = std::make_shared<const Message>(Message{{}, {}, "body"});
      tasks[i].origin_json = "{}";
    }
    store->insert(tasks, fence);
    store->set_setting("of-a-test", "kept");
    // Another connection sees it: it is committed.
    const auto other = open_mysql_store(options, test_clock());
    EXPECT_EQ(other->list({}).size(), tasks.size());
    EXPECT_EQ(other->setting("of-a-test", ""), "kept");
    EXPECT_EQ(other->setting("of-a-test", ""), "kept");
  }

  static inline std::string former_;
  static inline std::unique_ptr<OwnServers> servers_;
};

TEST_F(ServerSettings, ABinaryLogOfStatementsIsNamedWithWhatToDo) {
  MysqlSchema schema;
  if (schema.query("SHOW GLOBAL VARIABLES LIKE 'binlog_format'").empty()) GTEST_SKIP() << "it has one format";
  const StoreOptions options = plain_user(schema);
  const std::string before = schema.value("SELECT @@GLOBAL.binlog_format");
  schema.exec("SET GLOBAL binlog_format = 'STATEMENT'");
  std::string refusal;
  try {
    use(options);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  EXPECT_THAT(refusal, testing::HasSubstr("SET GLOBAL binlog_format = 'ROW'"));
  EXPECT_THAT(refusal, testing::HasSubstr("(1665)"));
  schema.exec("SET GLOBAL binlog_format = '" + before + "'");
}

// All at once, and the last of this server's tests: they stay.
TEST_F(ServerSettings, DoNotReachOurSessions) {
  MysqlSchema schema;
  const StoreOptions options = plain_user(schema);
  for (const auto& [variable, value] : std::vector<std::pair<std::string, std::string>>{
           {"innodb_default_row_format", "redundant"},
           {"max_join_size", "1"},
           {"sql_select_limit", "1"},
           {"sql_safe_updates", "1"},
           {"sql_mode",
            "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,"
            "NO_UNSIGNED_SUBTRACTION,ONLY_FULL_GROUP_BY,NO_ZERO_DATE,NO_ZERO_IN_DATE'"},
           {"autocommit", "0"},
           {"completion_type", "2"},
           {"tx_read_only", "1"},
           {"transaction_read_only", "1"},
           {"unique_checks", "0"},
           {"foreign_key_checks", "0"},
           {"max_statement_time", "0.05"},
           {"max_execution_time", "1"},
           {"sql_auto_is_null", "1"},
           {"max_sort_length", "64"},
           {"time_zone", "'-11:00'"},
           {"init_connect", "'SET autocommit = 0, sql_select_limit = 1, sql_safe_updates = 1'"}}) {
    // One of the other server's is unknown here.
    if (!schema.query("SHOW GLOBAL VARIABLES LIKE '" + variable + "'").empty())
      schema.exec("SET GLOBAL " + variable + " = " + value);
  }
  try {
    use(options);
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

// Otherwise each retry of a hanging statement would leave another copy running on the server.
TEST(Slow, AStatementThatIsGivenUpEndsInTheServer) {
  MysqlSchema schema;
  schema.open_store();
  schema.exec(
      "INSERT INTO rung_pauses (queue, length, since, who, reason) VALUES ('q', 1, UTC_TIMESTAMP(3), 'a', "
      "'')");
  schema.exec("RENAME TABLE rung_pauses TO pauses");
  schema.exec(
      "CREATE VIEW rung_pauses AS SELECT * FROM pauses WHERE BENCHMARK(1000000000, SHA2(queue, 512)) = 0");
  StoreOptions options = schema.options();
  options.timeout = Ms{1000};
  const auto open = [&] { return open_mysql_store(options, test_clock()); };
  auto store = result_of(open);
  // On a busy machine the login may take longer than that.
  for (int i = 0; i < 100 && !store; ++i) store = result_of(open);
  const auto given_up = result_of([&] { return (*store)->pauses(); });
  ASSERT_FALSE(given_up);
  EXPECT_TRUE(given_up.error().is_transient()) << given_up.error().message;
  const std::string running = "SELECT COUNT(*) FROM " + schema.processlist() + " WHERE db = '" +
                              schema.name() + "' AND id <> CONNECTION_ID()";
  for (int i = 0; i < 1200 && schema.value(running) != "0"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(schema.value(running), "0");
}

TEST(Schema, EachTableNamesItsRowFormat) {
  int tables = 0;
  for (const std::string& statement : sql::schema()) {
    if (!statement.starts_with("CREATE TABLE")) continue;
    ++tables;
    EXPECT_THAT(statement, testing::HasSubstr("ROW_FORMAT=DYNAMIC"));
  }
  EXPECT_GE(tables, 14);
}

}  // namespace
}  // namespace rung::test
