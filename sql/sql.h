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

// mysql/schema.sql. From the first release on, each change of it has a number of its own.
inline constexpr int kSchemaVersion = 1;
const std::vector<std::string>& schema();

// Splits a file into its statements, at each ";" at the end of a line, and removes comments.
std::vector<std::string> split(std::string_view text);

}  // namespace rung::sql
