#include "sql/sql.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace rung::sql {

// The .sql files as of build time.
extern const std::string_view kSchemaText, kStatementsText;

namespace {

constexpr std::string_view kName = "-- name: ";

std::string_view trim(std::string_view s) {
  const auto from = s.find_first_not_of(" \t\r\n");
  if (from == std::string_view::npos) return {};
  return s.substr(from, s.find_last_not_of(" \t\r\n") - from + 1);
}

// Calls `each` for every line, without its newline.
template <typename F>
void lines(std::string_view text, F each) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    each(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// The line without its comment. Our SQL has no "-- " inside quotes; a test of split() checks that.
std::string_view without_comment(std::string_view line) {
  if (trim(line).starts_with("--")) return {};
  return trim(line.substr(0, line.find(" -- ")));
}

using Statements = std::map<std::string, std::string, std::less<>>;

Statements read_statements() {
  Statements all;
  std::string* current = nullptr;
  lines(kStatementsText, [&](std::string_view line) {
    if (line.starts_with(kName)) {
      current = &all[std::string(trim(line.substr(kName.size())))];
      return;
    }
    const std::string_view code = without_comment(line);
    if (current == nullptr || code.empty()) return;
    if (!current->empty()) *current += ' ';
    *current += code;
  });
  for (auto& [name, text] : all) {
    while (text.ends_with(';')) text.pop_back();
  }
  return all;
}

const Statements& all_statements() {
  static const Statements statements = read_statements();
  return statements;
}

}  // namespace

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> all;
  std::string current;
  lines(text, [&](std::string_view line) {
    const std::string_view code = without_comment(line);
    if (code.empty()) return;
    if (!current.empty()) current += '\n';
    current += code;
    if (!code.ends_with(';')) return;
    current.pop_back();
    all.push_back(std::move(current));
    current.clear();
  });
  if (!current.empty()) all.push_back(std::move(current));
  return all;
}

std::string_view statement(std::string_view name) {
  const auto& all = all_statements();
  const auto it = all.find(name);
  if (it == all.end()) {
    std::fprintf(stderr, "rung: sql/statements has no '%.*s'\n", static_cast<int>(name.size()), name.data());
    std::abort();
  }
  return it->second;
}

std::vector<std::string_view> statement_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : all_statements()) names.push_back(name);
  return names;
}

const std::vector<std::string>& schema() {
  static const std::vector<std::string> statements = split(kSchemaText);
  return statements;
}

}  // namespace rung::sql
