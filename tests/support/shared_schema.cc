#include "tests/support/shared_schema.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace rung::test {
namespace {

// The last clause of a definition, as ALTER TABLE takes it; "" for a table without. MySQL has it in a
// comment.
std::string partitions(const std::string& definition) {
  const std::size_t begin = definition.find("PARTITION BY");
  if (begin == std::string::npos) return "";
  return definition.substr(begin, definition.find("*/", begin) - begin);
}

std::vector<std::string> inserts(MysqlSchema& schema, const std::string& table) {
  std::vector<std::string> out;
  for (const auto& row : schema.query("SELECT * FROM `" + table + "`")) {
    std::string values;
    for (const std::string& value : row) {
      values += values.empty() ? "" : ", ";
      values += value == "NULL" ? value : "'" + value + "'";
    }
    out.push_back("INSERT INTO `" + table + "` VALUES (" + values + ")");
  }
  return out;
}

}  // namespace

void SharedSchema::make() {
  schema_ = std::make_unique<MysqlSchema>();
  schema_->open_store();
  migrated_ = schema_->definitions();
  rows_.clear();
  for (const auto& [name, definition] : migrated_) {
    if (definition.starts_with("CREATE TABLE")) rows_[name] = inserts(*schema_, name);
  }
}

// A closed connection ends some time after it was closed, and holds its locks until then.
void SharedSchema::wait_until_alone() {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const std::string others = "SELECT COUNT(*) FROM " + schema_->processlist() + " WHERE db = '" +
                             schema_->name() + "' AND id <> CONNECTION_ID()";
  while (schema_->value(others) != "0") {
    if (std::chrono::steady_clock::now() > bound) {
      throw std::logic_error("an earlier test left a connection open to " + schema_->name());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void SharedSchema::empty() {
  const auto now = schema_->definitions();
  for (const auto& [name, definition] : now) {
    if (rows_.count(name) == 0) continue;
    const std::string wanted = partitions(migrated_[name]);
    const bool repartition = wanted != partitions(definition);
    // TRUNCATE resets the counter, which moved also where the rows were rolled back. It creates files: the
    // other tables are emptied in one transaction, which is faster.
    if (repartition || definition.find(" AUTO_INCREMENT=") != std::string::npos) {
      schema_->exec("TRUNCATE TABLE `" + name + "`");
    }
    if (repartition && !wanted.empty()) schema_->exec("ALTER TABLE `" + name + "` " + wanted);
  }
  schema_->exec("BEGIN");
  for (const auto& [name, rows] : rows_) {
    if (now.count(name) == 0) continue;
    schema_->exec("DELETE FROM `" + name + "`");
    for (const std::string& row : rows) schema_->exec(row);
  }
  schema_->exec("COMMIT");
}

std::string SharedSchema::emptied() {
  schema_->exec("USE `" + schema_->name() + "`");
  wait_until_alone();
  empty();
  if (schema_->definitions() != migrated_) make();
  schema_->exec("USE information_schema");  // tests count and end the connections that are in the schema
  return schema_->name();
}

}  // namespace rung::test
