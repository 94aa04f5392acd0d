// Options that become a request: parameters of a query, members of a body. Each is a row of a table; its
// value is checked when the command line is read. Thread: main's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "src/api/base/message.h"
#include "src/cli/shared/command.h"

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

// What a value must be.
enum class Is : std::uint8_t {
  text,      // UTF-8; empty: as if it was not given
  name,      // UTF-8, not empty
  reason,    // a text for people: what is not UTF-8 is replaced
  number,    // an integer from `least` to `most`
  real,      // the same, with a fraction
  flag,      // none: true; "=false" takes it back
  word,      // one of `words`
  words,     // several of them, separated by commas
  list,      // texts: the option can be repeated
  pairs,     // NAME=VALUE: the same
  headers,   // the same, as conditions: "header.NAME"
  duration,  // "1m"
  past,      // parse_when()
  future,    // the same
  until      // parse_until()
};

struct Field {
  std::string_view member;  // of the request: "delay", "success/presumed_after"
  Is is = Is::text;
  std::string_view type = "TEXT";
  std::string_view help = {};
  std::string_view flags = {};  // "" = as the member: "--max-attempts" of max_attempts
  double least = 0, most = 0;
  std::span<const std::string_view> words = {};
};

// REQUIRES: the texts of the fields outlive the command.
void add_fields(CLI::App& command, std::span<const Field> fields, const std::string& group = "Options");
std::string flag_of(const Field& field);  // "--max-attempts"
// What is no part of the request: is_on() and value_of() read it when the command runs.
CLI::Option& add_flag(CLI::App& command, const std::string& flags, const std::string& help);
CLI::Option& add_text(CLI::App& command, const std::string& flags, const std::string& help,
                      const std::string& type = "TEXT");
// Any number of words.
CLI::Option& add_words(CLI::App& command, const std::string& name, const std::string& help);
// Whether a flag was given, and not as --yes=false.
bool is_on(const CLI::App& command, const std::string& flag);
// The first one that adds something to the request: its option; "" = none does.
std::string given_of(const CLI::App& command, std::span<const Field> fields);
// The value of an option; "" = it was not given, or the command has no such option.
std::string value_of(const CLI::App& command, const std::string& option);
// Adds what was given to the request. A header that was given twice ends the command.
void read_fields(const CLI::App& command, std::span<const Field> fields, EpochMs now, Json& request);
// The same, as parameters of a query.
Parameters read_params(const CLI::App& command, std::span<const Field> fields, EpochMs now);

// The parameters of an operation of the API ("listAudit"), without those of pages and `without`.
std::vector<Field> params_of(std::string_view operation, const std::vector<std::string_view>& without = {});

// Adds --limit and --cursor. `limit`: where it is not given.
void add_page(CLI::App& command, std::size_t limit = api::kUsualPage);
// What they ask for, as read_rows() reads it.
Json read_page_of(const CLI::App& command, Session& session, const std::string& path,
                  const Parameters& parameters, const char* list);

// If no task is for the queue, and its name is close to that of a known one: says so on stderr.
void suggest_queue(Session& session, const std::string& queue);

// "--queue orders --due-before 2026-11-21T17:05:00.000Z": a bulk's filter as people write it.
std::string filter_flags(const Json& filter);

// Counts of tasks, by a field or in all: `rung list --count`, and dry runs of bulks.
// Adds --by. Use the returned option for needs().
CLI::Option* add_count_by(CLI::App& command);
// A table of the groups of a count.
std::string counts_text(const Json& counts);

}  // namespace rung::cli
