// Shared by all commands: exit codes, the config, the store, error output, options.
// Thread: main's; every call can block on a server, bounded by store.timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/cli/service/api.h"
#include "src/config/config.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/mysql/mysql_store.h"

// Only the sources that add options include CLI11: it costs each a second or more of the compiler.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rung::cli {

// NOTE: do not change: part of the contract, scripts depend on them.
enum Exit : int { kSuccess = 0, kUserError = 1, kUnreachable = 2, kNotFound = 3 };

// The options that several commands have, as they were given: before or after the command's name.
struct Common {
  std::string config;
  std::string group;
  bool json = false;
  ApiOptions api = {};
};
const Common& given();

// Which of these a command takes; each also takes those before it. config: -c and --group; json: --json;
// service, for commands that work over HTTP, too: --api, --token-file, --ca and --utc.
enum class Takes { none, config, json, service };
// Adds all of them to the program.
void add_program_options(CLI::App& app);

// `footer` is printed below its --help. `run` does the command's work, and returns its exit code; one of its
// subcommands runs instead of it.
using Run = std::function<int(const CLI::App& command)>;
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::string& footer, Run run, Takes takes = Takes::service);
int exit_code();  // of the command that has run

Exit exit_of(const Error& error);  // transient: kUnreachable; not_found: kNotFound; otherwise kUserError
// Prints one line to stderr.
void tell(std::string_view line);
// "rung: WHAT", on stderr; returns `code`.
int report_error(Exit code, std::string_view what);
int report_error(const Error& error);

// Ends the command: main() prints it, and a StoreError, as report_error() does.
struct Failed : std::runtime_error {
  Failed(Exit code, const std::string& what) : std::runtime_error(what), exit(code) {}
  explicit Failed(const Error& error) : Failed(exit_of(error), error.message) {}
  Exit exit;
};
// The value; without one the command ends.
template <typename T>
T need(Result<T> result) {
  return value_or_throw<Failed>(std::move(result));
}

// -c, $RUNG_CONFIG, ./rung.yaml or /etc/rung/rung.yaml, whichever comes first. "" = none.
std::string find_config();

// --group, or $RUNG_GROUP, or the group that has `queue`.
GroupChoice group_choice(const std::string& queue = {});

// Loads the config for this purpose. Prints errors and warnings, one per line; the command ends on errors.
// `queue`: the queue that the command is about. One with only an API is an error, unless for ConfigFor::api
// and reading, or with `any`.
Config load(ConfigFor purpose, const std::string& queue = {}, bool any = false);

// A store with a matching schema; throws StoreError. Only `rung migrate` and `rung run` create it: here a
// typo in store.url would leave a database behind.
std::unique_ptr<MysqlStore> open_store(StoreOptions options, const Clock& clock);

// The config, and the API: over a store as open_store() opens it, or an instance's.
struct Session {
  // `queue`: the queue that the command is about. A command that needs no rules is ConfigFor::reading. The
  // command ends if it cannot be opened.
  explicit Session(const std::string& queue = {}, ConfigFor purpose = ConfigFor::api);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SystemClock clock{};
  const Config config;
  std::unique_ptr<Api> api;  // refers to both
  EpochMs now;               // the database's clock, when the session was opened
};

// Adds --watch. Use the returned option for excludes().
CLI::Option* add_watch(CLI::App& command);
// Opens a session for reading, for --queue where it is given, and draws. With --watch: every 2 s until
// Ctrl-C, or until the database is unreachable; on a terminal each output replaces the previous one.
int open_and_draw(const CLI::App& command, const std::function<int(Session&)>& draw);

// The user for the audit: "alice@host (cli)". Through sudo: the user who called it.
std::string cli_user();

// Whether a person is there to be asked.
bool can_ask();
// Asks on stderr; whether the answer is yes.
bool says_yes(const std::string& question);

// Writes to stdout. If that fails the program ends with an error; a closed pipe ends it silently.
void print(std::string_view text);

// --- options that become a request: parameters of a query, members of a body. Each is a row of a table; its
// value is checked when the command line is read.

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
  past,      // parse_time(): "1h" is an hour ago
  future,    // the same: in an hour
  until      // the same: the end of something that begins now
};

// A time of this kind. "2026-11-21T17:05:00Z", with an optional fraction and offset ("+01:00"; default UTC),
// a space instead of the T, or only the date. past and future: also "now", or a duration ("90m"), optionally
// signed ("-10m"). until: also a time of day ("08:00": the next one by this machine's clock and time zone).
// The error says what is wrong and what is accepted. REQUIRES: no other thread changes the environment.
tl::expected<EpochMs, std::string> parse_time(Is is, std::string_view text, EpochMs now);

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
// What is no part of the request: is_on() and value_of() read it when the command runs. (Of CLI11's own
// add_flag(), two fit a help text that is a literal.)
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

// --- the commands

// Each adds the commands of its source to the program.
void add_run(CLI::App& app);     // run, migrate, healthcheck
void add_check(CLI::App& app);   // check, dialects
void add_attach(CLI::App& app);  // attach, detach, attached, adopt
void add_doctor(CLI::App& app);
void add_list(CLI::App& app);     // list, show, history, audit
void add_submit(CLI::App& app);   // submit, edit
void add_changes(CLI::App& app);  // cancel, discard, reschedule, fire, retry, redrive, finish
void add_bulk(CLI::App& app);
void add_causes(CLI::App& app);
void add_pause(CLI::App& app);  // pause, resume, queues
void add_stats(CLI::App& app);  // stats, nodes

}  // namespace rung::cli
