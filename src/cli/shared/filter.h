// The options for times, filters and counts, the same for every command that has them.
// Thread: main's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/store/tasks.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rung::cli {

// The direction of an unsigned duration: "1h" after --created-after is an hour ago, after --due-before in an
// hour.
enum class Direction { past, future };

// "2026-11-21T17:05:00Z", with an optional fraction and offset ("+01:00"; default UTC), a space instead of
// the T, or only the date; "now"; a duration ("90m"), optionally signed ("-10m"). The error says what is
// wrong and what is accepted.
tl::expected<EpochMs, std::string> parse_when(std::string_view text, EpochMs now, Direction direction);

// The end of something that begins now: a time of day ("08:00": the next one by this machine's clock and time
// zone), or a time as above, but no duration. REQUIRES: no other thread changes the environment.
tl::expected<EpochMs, std::string> parse_until(std::string_view text, EpochMs now);

// The conditions of api::kConditions.
struct FilterOptions {
  std::map<std::string, std::string> values;  // by the condition's name; "" = not given
  std::vector<std::string> states, headers;   // headers: NAME=VALUE
  std::string queue() const { return values.at("queue"); }
};
// `by_error`: with --error, which rung finish has for something else.
void add_filter(CLI::App& command, FilterOptions& options, bool by_error = true);

// If no task is for the queue, and its name is close to that of a known one: says so on stderr.
void suggest_queue(Session& session, const std::string& queue);

// "due_before" -> "--due-before".
std::string option_for(std::string_view name);

// Whether any filter option was given.
bool is_set(const FilterOptions& options);

// Parses the options into `filter`; prints errors and returns the exit code.
int read_filter(const FilterOptions& options, EpochMs now, Filter& filter);

// The time of an option, as parse_when() reads it; unchanged if it is not given. Prints the error and returns
// the exit code.
int read_time(const char* flag, const std::string& text, EpochMs now, Direction direction,
              std::optional<EpochMs>& to);

// As the parameters of a list.
Parameters conditions_of(const Filter& filter);

// "--queue orders --due-before 2026-11-21T17:05:00.000Z": a bulk's filter as people write it.
std::string filter_flags(const Json& filter);

// Counts of tasks, by a field or in all: `rung list --count`, and dry runs of bulks.
// Adds --by. Use the returned option for needs().
CLI::Option* add_count_by(CLI::App& command, std::string& by);

// Whether --by is right; prints an error and returns the exit code.
int check_count_by(const std::string& by);

// A table of the groups of a count.
std::string counts_text(const Json& counts);

}  // namespace rung::cli
