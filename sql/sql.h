// The SQL that Rung runs, from the .sql files in sql/DIALECT: there is no SQL text anywhere else.
// Thread: any; everything is built once and immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rung::sql {

// The statement under `-- name: NAME` in mysql/statements/*.sql, without its comments. `:words` in it are
// placeholders for values. REQUIRES: there is one of that name (else the program ends: the build is broken).
std::string_view statement(std::string_view name);
// The names of all statements, for tests.
std::vector<std::string_view> statement_names();

// What a migration does to a table that can be big. The server does it ...
enum class TableWork : std::uint8_t {
  instant,  // ... in the table's description only
  index,    // ... by building an index; reads and writes go on
  rebuild,  // ... by writing the table anew; reads and writes go on
  copy,     // ... by copying the table; reads go on, writes wait until it is done
};
std::string_view to_word(TableWork work);  // "instant", "index", ...

struct TableChange {
  struct Cost {
    TableWork work = TableWork::instant;
    double seconds =
        0;  // for a million rows, if `work` depends on their number; measured (docs/upgrading.md)
  };
  std::string table;
  Cost mariadb, mysql;
};

struct Migration {
  int version = 0;        // from 1, without gaps
  std::string_view name;  // "0001_tables"
  std::vector<std::string> statements;
  // From mysql/migrations/plan.json:
  std::string what;          // one line, for people
  bool old_may_run = false;  // sidecars that do not know this migration may run while and after it is applied
  std::string old_note;      // what such sidecars do not do, or why they must not run; may be ""
  std::vector<TableChange> changes;
};
const std::vector<Migration>& migrations();  // by version
int newest_version();

// A query of mysql/cookbook.sql: the question, and its statements (SETs of variables first, the query last).
struct Recipe {
  std::string title;
  std::vector<std::string> statements;
};
const std::vector<Recipe>& cookbook();

// Splits a file into its statements, at each ";" at the end of a line, and removes comments.
std::vector<std::string> split(std::string_view text);

}  // namespace rung::sql
