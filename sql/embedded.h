// The .sql files as of build time; other code uses sql.h.
#pragma once

#include <string_view>
#include <vector>

namespace rung::sql::embedded {

struct File {
  std::string_view name;  // without .sql
  std::string_view text;
};
const std::vector<File>& schema();
const std::vector<File>& statements();
const std::vector<File>& cookbook();

}  // namespace rung::sql::embedded
