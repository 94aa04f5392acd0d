// The options for filters and counts, the same for every command that has them.
// Thread: main's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/cli/shared/when.h"
#include "src/store/bulks.h"
#include "src/store/queries.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rung::cli {

struct FilterOptions {
  std::string kind, due_before, due_after, created_after, created_before;
  std::string first_failed_after, first_failed_before;
  std::vector<std::string> states, headers;  // headers: NAME=VALUE
  Filter filter;                             // options that need no parsing
};
// `by_error`: with --error, which rung finish has for something else.
void add_filter(CLI::App& command, FilterOptions& options, bool by_error = true);

// If no task is for the queue, and its name is close to that of a known one: says so on stderr.
void suggest_queue(Session& session, const std::string& queue);

// Whether any filter option was given.
bool is_set(const FilterOptions& options);

// Only the states. Prints nothing: the parser has validated them.
void read_states(const FilterOptions& options, Filter& filter);

// Parses the options into `filter`; prints errors and returns the exit code.
int read_filter(const FilterOptions& options, EpochMs now, Filter& filter);

// The time of an option, as parse_when() reads it; unchanged if it is not given. Prints the error and returns
// the exit code.
int read_time(const char* flag, const std::string& text, EpochMs now, Direction direction,
              std::optional<EpochMs>& to);

// --cursor of lists whose cursor is a number; none if it is not given. Prints the error and returns the exit
// code.
int read_cursor(const std::string& text, std::optional<std::int64_t>& cursor);

// As the parameters of a list.
Parameters conditions_of(const Filter& filter);

// "--queue orders --due-before 2026-11-21T17:05:00.000Z": a bulk's filter as people write it.
std::string filter_flags(const Json& filter);

// Counts of tasks, by a field or in all: `rung list --count`, and dry runs of bulks.
// Adds --by. Use the returned option for needs().
CLI::Option* add_count_by(CLI::App& command, std::string& by);

// Parses --by; prints an error and returns the exit code.
int read_count_by(const std::string& text, std::optional<CountBy>& by);

// A table of the groups of a count.
std::string counts_text(const Json& counts);

}  // namespace rung::cli
