#include "tests/support/mysql.h"

#include <cppconn/connection.h>
#include <cppconn/driver.h>
#include <cppconn/exception.h>
#include <cppconn/resultset.h>
#include <cppconn/resultset_metadata.h>
#include <cppconn/statement.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "src/core/base/url.h"
#include "src/store/mysql/mysql_store.h"
#include "tests/support/clock.h"
#include "tests/support/shared_schema.h"

namespace rung::test {
namespace {

Url server() {
  const char* text = std::getenv("RUNG_TEST_MYSQL");
  if (text == nullptr || *text == '\0') {
    throw std::runtime_error(
        "RUNG_TEST_MYSQL is not set: tests/run starts the servers, or tests/servers start DIR");
  }
  auto url = parse_url(text);
  if (!url) throw std::runtime_error("RUNG_TEST_MYSQL: " + url.error().message);
  return *url;
}

std::string unique_name() {
  static std::atomic<int> counter{0};
  std::random_device random;
  return "rung_test_" + std::to_string(getpid()) + "_" + std::to_string(++counter) + "_" +
         std::to_string(random() % 1'000'000);
}

}  // namespace

struct MysqlSchema::Connection {
  std::unique_ptr<::sql::Connection> connection;
  std::unique_ptr<::sql::Statement> statement;
};

MysqlSchema::MysqlSchema() : MysqlSchema(unique_name(), true) {}

MysqlSchema::MysqlSchema(std::string name, bool dropped)
    : name_(std::move(name)), dropped_(dropped), connection_(std::make_unique<Connection>()) {
  const Url url = server();
  ::sql::ConnectOptionsMap map;
  map["hostName"] = ::sql::SQLString("tcp://" + url.host_port(3306));
  map["port"] = url.port == 0 ? 3306 : url.port;
  map["userName"] = ::sql::SQLString(url.user);
  map["password"] = ::sql::SQLString(url.password);
  map["OPT_CHARSET_NAME"] = ::sql::SQLString("utf8mb4");
  try {
    connection_->connection.reset(get_driver_instance()->connect(map));
  } catch (const ::sql::SQLException& e) {
    throw std::runtime_error("no database at RUNG_TEST_MYSQL " + url.host_port(3306) + ": " + e.what());
  }
  connection_->statement.reset(connection_->connection->createStatement());
  exec("SET time_zone = '+00:00'");
}

MysqlSchema::~MysqlSchema() {
  if (!dropped_) return;
  try {
    exec("DROP DATABASE IF EXISTS `" + name_ + "`");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "could not drop %s: %s\n", name_.c_str(), e.what());
  }
}

std::shared_ptr<MysqlSchema> MysqlSchema::shared() {
  static SharedSchema schema;
  static std::weak_ptr<MysqlSchema> taken;
  if (!taken.expired()) throw std::logic_error("the shared schema is taken already");
  // A connection of its own: what a test sets in its session ends with the test.
  std::shared_ptr<MysqlSchema> mine(new MysqlSchema(schema.emptied(), false));
  mine->exec("USE `" + mine->name() + "`");
  taken = mine;
  return mine;
}

std::string MysqlSchema::url() const {
  Url url = server();
  url.path = name_;
  return format_url(url);
}

std::string MysqlSchema::plain_user_url() {
  exec("CREATE DATABASE IF NOT EXISTS " + name_ + " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin");
  exec("CREATE USER IF NOT EXISTS rung@'127.0.0.1' IDENTIFIED BY 'secret'");
  exec("GRANT SELECT, INSERT, UPDATE, DELETE, LOCK TABLES, CREATE, ALTER, DROP, INDEX, CREATE VIEW ON `" +
       name_ + "`.* TO rung@'127.0.0.1'");
  Url url = server();
  url.path = name_;
  url.user = "rung";
  url.password = "secret";
  return format_url(url);
}

StoreOptions MysqlSchema::options() const {
  StoreOptions options;
  options.urls = {*parse_url(url())};
  return options;
}

std::vector<std::vector<std::string>> MysqlSchema::query(const std::string& sql) {
  std::unique_ptr<::sql::ResultSet> rows(connection_->statement->executeQuery(sql));
  const unsigned n = rows->getMetaData()->getColumnCount();
  std::vector<std::vector<std::string>> out;
  while (rows->next()) {
    auto& row = out.emplace_back();
    for (unsigned i = 1; i <= n; ++i)
      row.push_back(rows->isNull(i) ? "NULL" : rows->getString(i).asStdString());
  }
  return out;
}

std::vector<std::string> MysqlSchema::columns(const std::string& sql) {
  std::unique_ptr<::sql::ResultSet> rows(connection_->statement->executeQuery(sql));
  std::vector<std::string> names;
  for (unsigned i = 1; i <= rows->getMetaData()->getColumnCount(); ++i) {
    names.push_back(rows->getMetaData()->getColumnLabel(i).asStdString());
  }
  return names;
}

std::string MysqlSchema::value(const std::string& sql) {
  const auto rows = query(sql);
  if (rows.empty() || rows[0].empty()) throw std::runtime_error("no row: " + sql);
  return rows[0][0];
}

void MysqlSchema::exec(const std::string& sql) { connection_->statement->execute(sql); }

bool MysqlSchema::is_mariadb() { return value("SELECT VERSION()").find("MariaDB") != std::string::npos; }

std::vector<std::map<std::string, std::string>> MysqlSchema::explain(const std::string& statement) {
  // MySQL's own default is a tree as text; MariaDB names the parts only when it is asked.
  const std::string explain =
      (is_mariadb() ? "EXPLAIN PARTITIONS " : "EXPLAIN FORMAT=TRADITIONAL ") + statement;
  const auto names = columns(explain);
  std::vector<std::map<std::string, std::string>> out;
  for (const auto& row : query(explain)) {
    auto& line = out.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) line[names[i]] = row[i];
  }
  return out;
}

// Unlike information_schema, SHOW CREATE never comes from a cache.
std::map<std::string, std::string> MysqlSchema::definitions() {
  std::map<std::string, std::string> out;
  for (const auto& row : query("SHOW TABLES"))
    out[row[0]] = query("SHOW CREATE TABLE `" + row[0] + "`").at(0).at(1);
  return out;
}

std::unique_ptr<MysqlStore> MysqlSchema::open_store() {
  auto store = open_mysql_store(options(), test_clock());
  store->migrate();
  exec("USE `" + name_ + "`");
  return store;
}

std::string numbers(int count, const std::string& alias) {
  std::string digit = "(SELECT 0 d";
  for (int d = 1; d < 10; ++d) digit += " UNION ALL SELECT " + std::to_string(d);
  digit += ")";
  std::string sum = "1", tables;
  int power = 1, place = 0;
  do {
    const std::string name = "d" + std::to_string(place++);
    sum += " + " + std::to_string(power) + " * " + name + ".d";
    tables += (tables.empty() ? "" : ", ") + digit + " " + name;
    power *= 10;
  } while (power < count);
  return "(SELECT " + sum + " AS seq FROM " + tables + " HAVING seq <= " + std::to_string(count) + ") " +
         alias;
}

}  // namespace rung::test
