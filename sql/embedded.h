// The .sql files as they were at build time; sql.h is what others use.
#pragma once

#include <string_view>
#include <vector>

namespace rung::sql::embedded {

struct File {
  std::string_view name;  // without .sql
  std::string_view text;
};
const std::vector<File>& migrations();
const std::vector<File>& statements();
const std::vector<File>& cookbook();

}  // namespace rung::sql::embedded
