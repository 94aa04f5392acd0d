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
  // The name of the schema, which is as if it was migrated just now. Another one where a test changed a table
  // or a view.
  std::string emptied();

 private:
  struct Table {
    std::string definition;            // SHOW CREATE TABLE without the counter
    std::vector<std::string> inserts;  // the rows that migrations made
  };
  void make();
  void wait_until_alone();
  bool empty();  // false: a test changed a table or a view

  std::unique_ptr<MysqlSchema> schema_;
  std::map<std::string, Table> tables_;  // and views, by name
};

}  // namespace rung::test
