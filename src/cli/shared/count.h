// Counts of tasks, by a field or in all: `rung list --count`, and dry runs of bulks. Thread: main's.
#pragma once

#include <optional>
#include <string>

#include "src/store/queries.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rung::cli {

// Adds --by. Use the returned option for needs().
CLI::Option* add_count_by(CLI::App& command, std::string& by);

// Parses --by; prints an error and returns the exit code.
int read_count_by(const std::string& text, std::optional<CountBy>& by);

// A table of the groups.
std::string counts_text(const TaskCounts& counts, const CountBy& by);

}  // namespace rung::cli
