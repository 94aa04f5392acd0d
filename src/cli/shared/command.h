// Shared by all commands: exit codes, the config, the store, error output.
// Thread: main's; every call can block on a server, bounded by store.timeout.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// What the scripts of rung completion ask: `rung __complete WORD...`. Prints what the last word can be.
// REQUIRES: all commands have been added.
int complete(CLI::App& app, const std::vector<std::string>& words);

// The message for a command line that `app` could not parse: it names the nearest command, option or value.
// `what`: the parser's own message.
std::string explain_mistake(const CLI::App& app, const std::string& what);

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
void add_completion(CLI::App& app);

}  // namespace rung::cli
