#include "src/cli/shared/count.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"

namespace rung::cli {

CLI::Option* add_count_by(CLI::App& c, std::string& by) {
  return c
      .add_option("--by", by,
                  "With --count: by queue, error_type, tag, level or header.NAME (one in index_headers)")
      ->type_name("FIELD");
}

int read_count_by(const std::string& text, std::optional<CountBy>& by) {
  if (text.empty()) return kSuccess;
  by = CountBy::parse(text);
  if (by) return kSuccess;
  const std::string near = confile::closest(text, {"queue", "error_type", "tag", "level", "header."});
  return report_error(kUserError, "--by: '" + text + "' is not queue, error_type, tag, level or header.NAME" +
                                      (near.empty() ? "" : ": did you mean " + near + "?"));
}

std::string counts_text(const TaskCounts& counts, const CountBy& by) {
  using enum Table::Align;
  std::string title = by.str();
  if (by.field != CountBy::Field::header) {
    std::ranges::transform(title, title.begin(), [](char c) {
      return c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
  }
  Table table({{"TASKS", right}, {title, left}});
  for (const TaskCounts::Group& group : counts.groups)
    table.row({grouped(group.tasks), group.value.empty() ? "-" : group.value});
  if (counts.others > 0) table.row({grouped(counts.others), "(others)"});
  return table.str(Terminal::of_stdout(), false);
}

}  // namespace rung::cli
