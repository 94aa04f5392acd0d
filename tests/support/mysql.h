// A schema for a test, on the server of RUNG_TEST_MYSQL: one of its own, or the one that the tests of a
// process share. Raw queries that bypass the store. Thread: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/store/mysql/mysql_store.h"

namespace rung::test {

class MysqlSchema {
 public:
  // Only chooses a name; open_mysql_store() creates the schema. If RUNG_TEST_MYSQL is not set or the server
  // is unreachable, throws std::runtime_error that says what to do, so the test fails.
  // The destructor drops it.
  MysqlSchema();
  // The schema that this process migrates once (0.5 to 2 s) and empties (10 ms) each time it is taken:
  // tables, rows, counters and partitions are those of a schema migrated just now. Only one at a time. Before
  // the next is taken, all connections to it must be closed: waits for that up to 20 s, then throws.
  static std::shared_ptr<MysqlSchema> shared();
  ~MysqlSchema();
  MysqlSchema(const MysqlSchema&) = delete;
  MysqlSchema& operator=(const MysqlSchema&) = delete;

  const std::string& name() const { return name_; }
  StoreOptions options() const;  // for open_mysql_store: this schema, ten seconds
  std::string url() const;       // mysql://.../<name>
  // Creates the schema, and a user with no more than the rights that docs/permissions.md names: read_only and
  // init_connect do not apply to root. Returns that user's URL of the schema.
  std::string plain_user_url();

  // Rows as text, NULL as "NULL". Uses the schema once it exists. Throws sql::SQLException.
  std::vector<std::vector<std::string>> query(const std::string& sql);
  std::vector<std::string> columns(const std::string& sql);  // the names of a result's columns
  std::string value(const std::string& sql);                 // the first cell
  void exec(const std::string& sql);
  // EXPLAIN's rows, by column: table, partitions, type, key, Extra and the rest have the same names in MySQL
  // and MariaDB.
  std::vector<std::map<std::string, std::string>> explain(const std::string& statement);
  bool is_mariadb();
  // The table of the server's connections. With that of information_schema MySQL 9.7 has failed, while others
  // disconnected: "Cannot convert string '\xA5\xA5...' from utf8mb4 to utf8mb3".
  std::string processlist() {
    return (is_mariadb() ? "information_schema" : "performance_schema") + std::string(".processlist");
  }

  // SHOW CREATE of each table and view, by name: columns, indexes, partitions and counters.
  std::map<std::string, std::string> definitions();
  // Opens and migrates a store; throws if that fails.
  std::unique_ptr<MysqlStore> open_store();

 private:
  struct Connection;
  MysqlSchema(std::string name, bool dropped);

  std::string name_;
  bool dropped_;  // by the destructor
  std::unique_ptr<Connection> connection_;
};

// A derived table with the numbers 1 to `count` in its column `seq`: MySQL has no tables like MariaDB's
// seq_1_to_100. 1 <= count <= 10^6.
std::string numbers(int count, const std::string& alias = "numbers");

}  // namespace rung::test
