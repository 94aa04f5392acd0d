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

#include "src/cli/shared/text.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::string& footer, Common& common) {
  CLI::App& command = *app.add_subcommand(name, summary);
  add_config_options(command, common);
  command.add_flag("--json", common.json, "Print JSON, for scripts");
  command.footer("\n" + footer);
  return command;
}

CLI::App& add_service_command(CLI::App& app, const std::string& name, const std::string& summary,
                              const std::string& footer, Common& common) {
  CLI::App& command = add_command(app, name, summary, footer, common);
  CLI::Option* api = command
                         .add_option("--api", common.api.url,
                                     "Use the HTTP API of this instance, not the database: needs no config")
                         ->type_name("URL")
                         ->excludes("--config")
                         ->excludes("--group");
  command
      .add_option("--token-file", common.api.token_file, "With --api: the token is this file's first line")
      ->type_name("FILE")
      ->needs(api);
  command
      .add_option("--ca", common.api.ca,
                  "With --api: CA certificates (PEM) to verify it; default: the system's")
      ->type_name("FILE")
      ->needs(api);
  return command;
}

void add_config_options(CLI::App& command, Common& common) {
  command
      .add_option("-c,--config", common.config,
                  "The config file (default: $RUNG_CONFIG, ./rung.yaml or /etc/rung/rung.yaml)")
      ->type_name("FILE");
  command.add_option("--group", common.group, "The group of the config to use (default: $RUNG_GROUP)")
      ->type_name("NAME");
}

int report_error(Exit code, std::string_view what) {
  const std::string line = "rung: " + one_line(what) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

Exit exit_of(const Error& error) {
  switch (error.kind) {
    case Error::Kind::transient:
      return kUnreachable;
    case Error::Kind::not_found:
      return kNotFound;
    case Error::Kind::refused:  // login, permission or table: the service was reached
    case Error::Kind::permanent:
      break;
  }
  return kUserError;
}

int report_error(const Error& error) { return report_error(exit_of(error), error.message); }

std::string find_config(const Common& common) {
  if (!common.config.empty()) return common.config;
  if (const char* named = std::getenv("RUNG_CONFIG"); named != nullptr && *named != '\0') return named;
  for (const char* path : {"rung.yaml", "/etc/rung/rung.yaml"}) {
    // One that exists and cannot be read is not passed over: reading it says why.
    if (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) return path;
  }
  return {};
}

GroupChoice group_choice(const Common& common, const std::string& queue) {
  if (!common.group.empty()) return {common.group, "--group", queue};
  const char* named = std::getenv("RUNG_GROUP");
  return {named != nullptr ? named : "", "RUNG_GROUP", queue};
}

int load(const Common& common, Config& config, ConfigFor purpose, const std::string& queue,
         bool file_rights) {
  if (const int code = load_any(common, config, purpose, queue, file_rights); code != kSuccess) return code;
  if (config.api.url.empty() || purpose == ConfigFor::api || purpose == ConfigFor::reading) return kSuccess;
  return report_error(kUserError, find_config(common) + ": " + std::string(kOnlyApi));
}

int load_any(const Common& common, Config& config, ConfigFor purpose, const std::string& queue,
             bool file_rights) {
  const std::string path = find_config(common);
  if (path.empty()) {
    return report_error(kUserError,
                        "no config file: give -c FILE or set $RUNG_CONFIG; there is no ./rung.yaml and no "
                        "/etc/rung/rung.yaml");
  }
  LoadedConfig loaded = load_config(path, purpose, group_choice(common, queue));
  const auto tell = [](const std::string& what) {
    const std::string line = one_line(what) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
  for (const ConfigProblem& problem : loaded.problems) tell(problem.str());
  for (ConfigProblem warning : loaded.warnings) {
    if (warning.file_rights && !file_rights) continue;
    warning.what.insert(0, "warning: ");
    tell(warning.str());
  }
  if (!loaded.ok()) return kUserError;
  config = std::move(loaded.config);
  return kSuccess;
}

namespace {

int check_api_options(const ApiOptions& api) {
  if (api.url.empty()) return kSuccess;
  const auto url = parse_url(api.url);
  const std::string like = ": write --api https://rung.example:8025";
  if (!url) return report_error(kUserError, "--api: " + url.error().message + like);
  if (url->scheme != "http" && url->scheme != "https")
    return report_error(kUserError, "--api: the URL begins with https:// or http://" + like);
  if (!url->user.empty() || !url->password.empty() || !url->query.empty())
    return report_error(kUserError,
                        "--api: the URL has a user or a query; a token is in --token-file" + like);
  if (url->scheme == "http" && !is_loopback(url->host) && !api.token_file.empty())
    return report_error(
        kUserError,
        "--api: http:// would send the token in plain text: use https:// (http:// only for this machine)");
  if (url->scheme == "http" && !api.ca.empty()) return report_error(kUserError, "--ca: only with https://");
  return kSuccess;
}

}  // namespace

int open_service(const Common& common, Session& session, const std::string& queue, ConfigFor purpose) {
  if (const int code = check_api_options(common.api); code != kSuccess) return code;
  if (!common.api.url.empty()) {
    session.config.api = common.api;
  } else if (const int code = load(common, session.config, purpose, queue); code != kSuccess) {
    return code;
  }
  auto connected = connect(session);
  return connected ? static_cast<int>(kSuccess) : report_error(connected.error());
}

namespace {

Result<std::unique_ptr<MysqlStore>> open_store(Session& session) {
  session.config.store.migrate = false;
  auto store = open_mysql_store(session.config.store, *session.clock);
  if (!store) return store;
  if (auto good = (*store)->check_schema(); !good) return tl::unexpected(good.error());
  return store;
}

Result<void> begin(Session& session, std::unique_ptr<Api> api) {
  session.api = std::move(api);
  const auto now = session.api->now();
  if (!now) return tl::unexpected(now.error());
  session.now = *now;
  return {};
}

}  // namespace

Result<void> connect(Session& session) {
  if (!session.config.api.url.empty()) {
    auto client = api_client(session.config.api);
    return client ? begin(session, *std::move(client)) : tl::unexpected(client.error());
  }
  auto store = open_store(session);
  if (!store) return tl::unexpected(store.error());
  return begin(session, local_api(session.config, *session.clock, cli_user(), *std::move(store)));
}

Result<void> connect_store(Session& session) {
  auto store = open_store(session);
  if (!store) return tl::unexpected(store.error());
  session.store = *std::move(store);
  session.api = local_api(session.config, *session.clock, cli_user(), nullptr);
  const auto now = session.store->now();
  if (!now) return tl::unexpected(now.error());
  session.now = *now;
  return {};
}

Result<void> open_group(const std::string& config, const GroupChoice& group, Session& session) {
  session.api.reset();
  LoadedConfig loaded = load_config(config, ConfigFor::database, group);
  session.config = std::move(loaded.config);
  if (!loaded.ok()) return permanent(loaded.problems.front().str());
  auto connected = connect(session);
  if (!connected) session.api.reset();
  return connected;
}

void add_utc(CLI::App& command) {
  command.add_flag_callback(
      "--utc", [] { set_time_style(TimeStyle::utc); },
      "Print times as timestamps (UTC) instead of relative to now");
}

CLI::Option* add_watch(CLI::App& command, bool& watch) {
  return command.add_flag("--watch", watch, "Refresh every 2 s until Ctrl-C");
}

int watch(Session& session, const std::function<int()>& draw) {
  const auto now = [&] {
    auto read = session.api->now();
    if (read) session.now = *read;
    return read;
  };
  return watch(now, draw);
}

int watch(const std::function<Result<EpochMs>()>& now, const std::function<int()>& draw) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    const auto at = now();
    if (!at) return report_error(at.error());
    print((terminal ? "\x1b[H\x1b[2J" : "") + std::string("every 2s, Ctrl-C to stop: ") +
          format_utc(*at).substr(0, 19) + " UTC\n\n");
    const int code = draw();
    if (code == kUnreachable) return code;
    if (!terminal) print("\n");
    std::this_thread::sleep_for(std::chrono::seconds{2});
  }
}

namespace {

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

std::string cli_user() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return clean_utf8(user_name() + "@" + host.data(), 240) + " (cli)";
}

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
