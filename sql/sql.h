// The SQL that Rung runs, from the .sql files in sql/DIALECT: no other place holds SQL text.
// Thread: any; everything is made once and never changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rung::sql {

// The statement under `-- name: NAME` in mysql/statements/*.sql, without its comments. `:words` in it are
// places for values. REQUIRES: there is one of that name (else the program ends: it was built wrong).
std::string_view statement(std::string_view name);
// All of those names, for tests.
std::vector<std::string_view> statement_names();

struct Migration {
  int version = 0;        // from 1, without gaps
  std::string_view name;  // "0001_tables"
  std::vector<std::string> statements;
};
const std::vector<Migration>& migrations();  // by version
int newest_version();

// A query of mysql/cookbook.sql: what it answers, and its statements (SETs of variables first, the query
// last).
struct Recipe {
  std::string title;
  std::vector<std::string> statements;
};
const std::vector<Recipe>& cookbook();

// A file's statements: parted by ";" at the end of a line, without comments.
std::vector<std::string> split(std::string_view text);

}  // namespace rung::sql
