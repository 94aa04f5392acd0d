// What is behind MysqlSchema::shared(): a migrated schema, and how it is emptied. Thread: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/mysql.h"

namespace rung::test {

class SharedSchema {
 public:
  // Makes the schema now: a static of this class then ends before the driver's own statics, which it uses.
  SharedSchema() { make(); }
  // The name of the schema, which is as if it was migrated just now. Another one where a test left tables or
  // views that cannot be put right.
  std::string emptied();

 private:
  using Rows = std::vector<std::string>;  // INSERT statements

  void make();
  void wait_until_alone();
  void empty();

  std::unique_ptr<MysqlSchema> schema_;
  std::map<std::string, std::string> migrated_;  // SHOW CREATE of each table and view, by name
  std::map<std::string, Rows> rows_;             // by table: what migrations insert
};

}  // namespace rung::test
