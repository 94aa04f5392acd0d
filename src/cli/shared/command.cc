#include "src/cli/shared/command.h"

#include <pwd.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "src/cli/shared/options.h"
#include "src/cli/shared/text.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

// The command line as it was parsed.
struct Program {
  Common given;
  int exit = kSuccess;
};
Program& program() {
  static Program the_program;
  return the_program;
}

// What is wrong with --api, --token-file and --ca; "" = nothing.
std::string wrong_api_options(const Common& given) {
  const ApiOptions& api = given.api;
  if (api.url.empty())
    return api.token_file.empty() && api.ca.empty() ? "" : "--token-file and --ca need --api";
  if (!given.config.empty() || !given.group.empty()) return "--api excludes --config and --group";
  const auto url = parse_url(api.url);
  const bool http = url && url->scheme == "http", https = url && url->scheme == "https";
  if (!(http || https) || !url->user.empty() || !url->password.empty() || !url->query.empty())
    return "--api: the URL begins with https:// or http:// and has no user and no query (a token is in "
           "--token-file): https://rung.example:8025";
  if (http && !is_loopback(url->host) && !api.token_file.empty())
    return "--api: http:// would send the token in plain text: use https:// (http:// only for this machine)";
  return http && !api.ca.empty() ? "--ca: only with https://" : "";
}

// Each is an option of the program, and of the commands that take it.
void add_options(CLI::App& app, Takes takes) {
  constexpr const char *kOutput = "Output", *kConnection = "Connection";
  Common& c = program().given;
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    app.add_option(name, value, help)->type_name(type)->group(kConnection);
  };
  if (takes >= Takes::json) app.add_flag("--json", c.json, "Print JSON, for scripts")->group(kOutput);
  if (takes >= Takes::service)
    app.add_flag_callback(
           "--utc", [] { set_time_style(TimeStyle::utc); },
           "Print times as timestamps (UTC) instead of relative to now")
        ->group(kOutput);
  if (takes >= Takes::config) {
    add("-c,--config", c.config, "FILE",
        "The config file (default: $RUNG_CONFIG, ./rung.yaml or /etc/rung/rung.yaml)");
    add("--group", c.group, "NAME", "The group of the config to use (default: $RUNG_GROUP)");
  }
  if (takes >= Takes::service) {
    add("--api", c.api.url, "URL", "Use the HTTP API of this instance, not the database: needs no config");
    add("--token-file", c.api.token_file, "FILE", "With --api: the token is this file's first line");
    add("--ca", c.api.ca, "FILE", "With --api: CA certificates (PEM) to verify it; default: the system's");
  }
}

Config config_of_session(const std::string& queue, ConfigFor purpose) {
  if (given().api.url.empty()) {
    Config config = load(purpose, queue);
    config.store.migrate = false;  // also of later connections: see open_store()
    return config;
  }
  Config config;
  config.api = given().api;
  return config;
}

// The real user: environment variables can be forged. Only root may name another: sudo says who called it.
std::string user_name() {
  if (getuid() == 0) {
    if (const char* caller = std::getenv("SUDO_USER"); caller != nullptr && *caller != '\0') return caller;
  }
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  const bool known = getpwuid_r(getuid(), &entry, room.data(), room.size(), &found) == 0 && found != nullptr;
  return known ? found->pw_name : "uid " + std::to_string(getuid());
}

}  // namespace

const Common& given() { return program().given; }

void add_program_options(CLI::App& app) { add_options(app, Takes::service); }

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::string& footer, Run run, Takes takes) {
  CLI::App& command = *app.add_subcommand(name, summary);
  add_options(command, takes);
  command.footer("\n" + footer);
  command.callback([&command, run = std::move(run)] {
    if (!command.get_subcommands().empty()) return;
    if (const auto wrong = wrong_api_options(given()); !wrong.empty()) throw Failed(kUserError, wrong);
    program().exit = run(command);
  });
  return command;
}

int exit_code() { return program().exit; }

void tell(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int report_error(Exit code, std::string_view what) {
  tell("rung: " + one_line(what));
  return code;
}

Exit exit_of(const Error& error) {
  if (error.kind == Error::Kind::transient) return kUnreachable;
  // Refused, a login, a right or a table: the service was reached.
  return error.kind == Error::Kind::not_found ? kNotFound : kUserError;
}

int report_error(const Error& error) { return report_error(exit_of(error), error.message); }

std::string find_config() {
  if (!given().config.empty()) return given().config;
  if (const char* named = std::getenv("RUNG_CONFIG"); named != nullptr && *named != '\0') return named;
  for (const char* path : {"rung.yaml", "/etc/rung/rung.yaml"}) {
    // One that exists and cannot be read is not passed over: reading it says why.
    if (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) return path;
  }
  return {};
}

GroupChoice group_choice(const std::string& queue) {
  if (!given().group.empty()) return {given().group, "--group", queue};
  const char* named = std::getenv("RUNG_GROUP");
  return {named != nullptr ? named : "", "RUNG_GROUP", queue};
}

Config load(ConfigFor purpose, const std::string& queue, bool any) {
  const std::string path = find_config();
  if (path.empty())
    throw Failed(kUserError,
                 "no config file: give -c FILE or set $RUNG_CONFIG; there is no ./rung.yaml and no "
                 "/etc/rung/rung.yaml");
  LoadedConfig loaded = load_config(path, purpose, group_choice(queue));
  for (const ConfigProblem& problem : loaded.problems) tell(one_line(problem.str()));
  for (ConfigProblem warning : loaded.warnings) {
    warning.what.insert(0, "warning: ");
    tell(one_line(warning.str()));
  }
  if (!loaded.ok()) throw Failed(kUserError, "");
  const bool by_api = any || purpose == ConfigFor::api || purpose == ConfigFor::reading;
  if (!loaded.config.api.url.empty() && !by_api)
    throw Failed(kUserError, path + ": " + std::string(kOnlyApi));
  return std::move(loaded.config);
}

std::unique_ptr<MysqlStore> open_store(StoreOptions options, const Clock& clock) {
  options.migrate = false;
  auto store = open_mysql_store(options, clock);
  store->check_schema();
  return store;
}

Session::Session(const std::string& queue, ConfigFor purpose)
    : config(config_of_session(queue, purpose)),
      api(config.api.url.empty() ? local_api(config, clock, cli_user(), open_store(config.store, clock))
                                 : need(api_client(config.api))),
      now(need(api->now())) {}

CLI::Option* add_watch(CLI::App& command) {
  return add_flag(command, "--watch", "Refresh every 2 s until Ctrl-C").excludes("--json");
}

int open_and_draw(const CLI::App& command, const std::function<int(Session&)>& draw) {
  Session session(value_of(command, "--queue"), ConfigFor::reading);
  if (!is_on(command, "--watch")) return draw(session);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    session.now = need(session.api->now());
    print((terminal ? "\x1b[H\x1b[2J" : "") + std::string("every 2s, Ctrl-C to stop: ") +
          format_utc(session.now).substr(0, 19) + " UTC\n\n");
    try {
      draw(session);
    } catch (const Failed& error) {
      if (error.exit == kUnreachable) throw;
      report_error(error.exit, error.what());
    }
    if (!terminal) print("\n");
    std::this_thread::sleep_for(std::chrono::seconds{2});
  }
}

std::string cli_user() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return clean_utf8(user_name() + "@" + host.data(), 240) + " (cli)";
}

bool can_ask() { return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0; }

bool says_yes(const std::string& question) {
  std::fwrite(question.data(), 1, question.size(), stderr);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  // Half an answer is none. Who closed the pipe wants no more, and no word about it.
  if (errno != EPIPE)
    report_error(kUserError, std::string("the output cannot be written: ") + std::strerror(errno));
  std::_Exit(kUserError);
}

}  // namespace rung::cli
