// A schema of its own for a test, on the server of RUNG_TEST_MYSQL; dropped at the end. Raw queries, past the
// store. Thread: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/store/store.h"

namespace rung::test {

class MysqlSchema {
 public:
  // Names a schema, does not create it: open_mysql_store() does. Throws std::runtime_error that says what to
  // do where RUNG_TEST_MYSQL is not set or the server is not there: the test fails.
  MysqlSchema();
  ~MysqlSchema();
  MysqlSchema(const MysqlSchema&) = delete;
  MysqlSchema& operator=(const MysqlSchema&) = delete;

  const std::string& name() const { return name_; }
  StoreOptions options() const;  // for open_mysql_store: this schema, ten seconds
  std::string url() const;       // mysql://.../<name>

  // Rows of text, NULL as "NULL". Runs in the schema once it is there. Throws sql::SQLException.
  std::vector<std::vector<std::string>> query(const std::string& sql);
  std::vector<std::string> columns(const std::string& sql);  // the names of a result's columns
  std::string value(const std::string& sql);                 // the first cell
  void exec(const std::string& sql);
  // EXPLAIN's rows, by column: table, partitions, type, key, Extra and the rest are named alike by MySQL and
  // MariaDB.
  std::vector<std::map<std::string, std::string>> explain(const std::string& statement);
  bool is_mariadb();

  // Opened and migrated; throws where that fails.
  std::unique_ptr<Store> open_store();

 private:
  struct Connection;
  std::string name_;
  std::unique_ptr<Connection> connection_;
};

// A derived table with the numbers 1 to `count` in its column `seq`: MySQL has no tables like MariaDB's
// seq_1_to_100. 1 <= count <= 10^6.
std::string numbers(int count, const std::string& alias = "numbers");

}  // namespace rung::test
