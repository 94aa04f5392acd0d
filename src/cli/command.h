// What all commands share: exit codes, the config, the store, how a mistake is told.
// Thread: main's alone; every call may block on a server, bounded by store.timeout.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "src/config/config.h"
#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/store/store.h"

namespace rung::cli {

// The contract's. NOTE: do not change: scripts lean on them.
enum Exit : int { kSuccess = 0, kUserError = 1, kUnreachable = 2, kNotFound = 3 };

// -c, --group and --json, of every command.
struct Common {
  std::string config;
  std::string group;
  bool json = false;
};

// A command, with -c/--config and --json; `teach` stands under its --help.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::string& footer, Common& common);
// -c and --group.
void add_config_options(CLI::App& command, Common& common);

// One line on stderr; returns `code`.
int report_error(Exit code, std::string_view what);
int report_error(const Error& error);  // transient: not reached; not_found; else the user's mistake
Exit exit_of(const Error& error);

// -c, else $RUNG_CONFIG, else ./rung.yaml, else /etc/rung/rung.yaml. "" = there is none.
std::string find_config(const Common& common);

// --group, else $RUNG_GROUP, else the group that has `queue`.
GroupChoice group_choice(const Common& common, const std::string& queue = {});

// Loads the config for what the command does; where it cannot, tells so, one problem a line, and returns
// kMistake. Warnings are told, too. `queue`: the one that the command is about.
int load(const Common& common, Config& config, ConfigFor purpose, const std::string& queue = {});

// The config, and a store whose schema is as this program needs it: made by `rung migrate` or `rung run`,
// never here, where a slip in store.url would leave a database behind. Tells what is wrong.
struct Session {
  std::unique_ptr<const Clock> clock = std::make_unique<SystemClock>();  // the store refers to it
  Config config;
  std::unique_ptr<Store> store;
  EpochMs now;  // the database's clock, at the start
};
int open_session(const Common& common, Session& session, const std::string& queue = {});
// The same with the config that the session has already; nothing is told.
Result<void> connect(Session& session);

// --watch. The returned option is for excludes().
CLI::Option* add_watch(CLI::App& command, bool& watch);
// Draws again every 2 s until Ctrl-C, or until the database can't be reached for a draw; then its exit code.
// On a terminal each picture replaces the one before. `session.now` is set before each.
int watch(Session& session, const std::function<int()>& draw);
// The same for any clock: `now` is asked before each picture.
int watch(const std::function<Result<EpochMs>()>& now, const std::function<int()>& draw);

// Whose hand it is that changes something here, for the audit: "alice@host (cli)".
std::string cli_user();

// Writes to stdout; a pipe that closed ends the program quietly.
void print(std::string_view text);

}  // namespace rung::cli
