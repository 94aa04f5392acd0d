// The table of rights, and the pages that show it.
#include "src/api/base/rights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace rung::api {
namespace {

std::string source(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(RUNG_SOURCE_DIR) + "/" + path).rdbuf();
  return text.str();
}

// The cells of a line of a Markdown table, without blanks around them.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const std::size_t from = cell.find_first_not_of(' ');
    out.push_back(from == std::string::npos ? "" : cell.substr(from, cell.find_last_not_of(' ') + 1 - from));
  }
  return out;
}

// The row of docs/http.md for an action: from which role on, and what `queues` limits.
std::vector<std::string> row_of(const std::string& word) {
  std::istringstream page(source("docs/http.md"));
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| action | what | from the role |")) in_table = true;
    if (in_table && !line.starts_with("|")) break;
    if (in_table && cells(line).at(0).find("`" + word + "`") != std::string::npos) return cells(line);
  }
  return {};
}

TEST(Actions, TheDocsHaveTheTable) {
  for (const Right& right : kRights) {
    if (right.action == Action::probe) continue;
    const auto row = row_of(std::string(right.word));
    ASSERT_EQ(row.size(), 4U) << right.word;
    EXPECT_EQ(row[2], kRoleWords.at(static_cast<std::size_t>(right.least))) << right.word;
    EXPECT_EQ(!row[3].empty(), right.by_queue) << right.word;
  }
}

TEST(Actions, EachRoleMayDoWhatTheOnesBeforeItMay) {
  for (const Right& right : kRights) {
    for (std::size_t role = 1; role < kRoleWords.size(); ++role) {
      EXPECT_TRUE(!may({"", static_cast<Role>(role - 1), nullptr}, right.action) ||
                  may({"", static_cast<Role>(role), nullptr}, right.action))
          << right.word;
    }
  }
}

}  // namespace
}  // namespace rung::api
