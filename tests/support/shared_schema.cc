#include "tests/support/shared_schema.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace rung::test {
namespace {

struct Definition {
  std::string text;
  bool counter;  // of AUTO_INCREMENT: moved, also where the rows were rolled back or deleted
};

// By name, of tables and views. SHOW CREATE TABLE has columns, indexes, partitions and the counter, and
// unlike information_schema never comes from a cache.
std::map<std::string, Definition> definitions(MysqlSchema& schema) {
  std::map<std::string, Definition> out;
  for (const auto& row : schema.query("SHOW TABLES")) {
    std::string text = schema.query("SHOW CREATE TABLE `" + row[0] + "`").at(0).at(1);
    static const std::string kCounter = " AUTO_INCREMENT=";
    const std::size_t begin = text.find(kCounter);
    if (begin != std::string::npos) text.erase(begin, text.find(' ', begin + kCounter.size()) - begin);
    out[row[0]] = {text, begin != std::string::npos};
  }
  return out;
}

bool is_view(const std::string& definition) { return !definition.starts_with("CREATE TABLE"); }

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
  schema_.reset();
  tables_.clear();
  schema_ = std::make_unique<MysqlSchema>();
  schema_->open_store();
  for (const auto& [name, definition] : definitions(*schema_)) {
    Table& table = tables_[name];
    table.definition = definition.text;
    if (!is_view(definition.text)) table.inserts = inserts(*schema_, name);
  }
}

void SharedSchema::wait_until_alone() {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const std::string others = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '" +
                             schema_->name() + "' AND id <> CONNECTION_ID()";
  while (schema_->value(others) != "0") {
    if (std::chrono::steady_clock::now() > bound) {
      throw std::logic_error("an earlier test left a connection open to " + schema_->name());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool SharedSchema::empty() {
  const auto now = definitions(*schema_);
  if (now.size() != tables_.size()) return false;
  for (const auto& [name, table] : tables_) {
    const auto it = now.find(name);
    if (it == now.end() || it->second.text != table.definition) return false;
  }
  // TRUNCATE resets the counter. It commits, and creates files: the other tables are emptied in one
  // transaction.
  for (const auto& [name, definition] : now) {
    if (definition.counter) schema_->exec("TRUNCATE TABLE `" + name + "`");
  }
  schema_->exec("BEGIN");
  for (const auto& [name, table] : tables_) {
    if (is_view(table.definition)) continue;
    schema_->exec("DELETE FROM `" + name + "`");
    for (const std::string& insert : table.inserts) schema_->exec(insert);
  }
  schema_->exec("COMMIT");
  return true;
}

std::string SharedSchema::emptied() {
  if (schema_) wait_until_alone();
  if (!schema_ || !empty()) make();
  return schema_->name();
}

}  // namespace rung::test
