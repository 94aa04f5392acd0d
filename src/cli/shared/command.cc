#include "src/cli/shared/command.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>  // defines what each program with a CLI::App links
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/tasks/tasks.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"
#include "src/core/base/time.h"
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
    app.add_flag("--utc", times_in_utc, "Print times as timestamps (UTC) instead of relative to now")
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

// The next time after `now` at which this machine's clock shows `time`. Where it skips that time (daylight
// saving begins), the library chooses one near it.
EpochMs next_local(Ms time, EpochMs now) {
  const std::time_t unix_time = now.ms / 1000;
  std::tm today{};
  localtime_r(&unix_time, &today);
  const std::chrono::hh_mm_ss<Ms> clock(time);
  for (int days = 0;; ++days) {
    std::tm then = today;
    then.tm_mday += days;  // mktime() carries over
    then.tm_hour = static_cast<int>(clock.hours().count());
    then.tm_min = static_cast<int>(clock.minutes().count());
    then.tm_sec = static_cast<int>(clock.seconds().count());
    then.tm_isdst = -1;  // unknown
    const EpochMs at{static_cast<std::int64_t>(std::mktime(&then)) * 1000 + clock.subseconds().count()};
    if (at > now || days == 2) return at;
  }
}

std::string flags_of(const Field& field) {
  return field.flags.empty() ? option_for(field.member) : std::string(field.flags);
}

// Due times are ahead, all others have been.
std::string time_help(Is is) {
  return is == Is::past     ? "; a duration counts back from now"
         : is == Is::future ? "; a duration counts from now"
                            : "";
}

// Why the value is wrong; "" = it is not.
std::string wrong_value(const Field& field, const std::string& text) {
  switch (field.is) {
    case Is::past:
    case Is::future:
    case Is::until: {
      const auto time = parse_time(field.is, text, EpochMs{});
      return time ? "" : time.error();
    }
    case Is::duration: {
      // JSON also accepts bare milliseconds, but on a command line 30 looks like seconds.
      const auto duration = levels::parse_duration(text);
      return duration ? "" : "'" + text + "': " + duration.error();
    }
    case Is::pairs:
    case Is::headers: {
      const auto equals = text.find('=');
      const bool empty = field.is == Is::headers && equals + 1 == text.size();
      if (equals == std::string::npos || equals == 0 || empty) return "'" + text + "' is not NAME=VALUE";
      break;
    }
    case Is::name:
      if (text.empty()) return "is empty: give a value, or leave the option out";
      break;
    default:
      break;
  }
  return is_utf8(text) || field.is == Is::reason ? "" : "not UTF-8";
}

void add_value(const Field& field, const std::string& text, EpochMs now, Json& request) {
  const auto member = [&]() -> Json& { return request[Json::json_pointer("/" + std::string(field.member))]; };
  switch (field.is) {
    case Is::text:
    case Is::name:
    case Is::word:
    case Is::duration:
      if (!text.empty()) member() = text;
      return;
    case Is::reason:
      member() = clean_utf8(text, kErrorBytes);
      return;
    case Is::number:
      member() = std::strtoll(text.c_str(), nullptr, 0);  // as CLI::Range has read it
      return;
    case Is::real:
      member() = std::strtod(text.c_str(), nullptr);
      return;
    case Is::flag:
      return;  // read_fields()
    case Is::words:
      member() =
          text_of(request, field.member) + (request.contains(std::string(field.member)) ? "," : "") + text;
      return;
    case Is::list:
      member().push_back(text);
      return;
    case Is::pairs:
      member()[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
      return;
    case Is::headers: {
      const std::string name = std::string(api::kHeaderParam) + text.substr(0, text.find('='));
      if (request.contains(name)) throw Failed(kUserError, option_for(name) + ": given twice");
      request[name] = text.substr(text.find('=') + 1);
      return;
    }
    case Is::past:
    case Is::future:
    case Is::until:
      member() = to_rfc3339(*parse_time(field.is, text, now));
      return;
  }
}

Field field_of(const api::Param& param) {
  using Of = api::Param::Is;
  if (param.is == Of::headers)
    return {"header", Is::headers, "NAME=VALUE",
            "a header, and its value; only headers listed under index_headers in the config"};
  Field field{param.name, Is::name, "TEXT", param.help, {}, 0, 0, param.words};
  if (param.name == "queue") field.type = "QUEUE";
  if (param.name == "first_failed_after") field.flags = "--first-failed-after,--since";
  if (param.is == Of::word)  // "only ...: true" is a flag
    field.is = param.words.size() == 1 ? Is::flag : Is::word;
  if (param.is == Of::words) field.is = Is::words;
  if (param.is == Of::flag) field.is = Is::flag;
  if (param.is == Of::time) {
    field.is = param.name.starts_with("due_") ? Is::future : Is::past;
    field.type = "TIME";
  }
  if (param.is == Of::duration) {
    field.is = Is::duration;
    field.type = "DURATION";
  }
  return field;
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

// --- options that become a request

tl::expected<EpochMs, std::string> parse_time(Is is, std::string_view text, EpochMs now) {
  if (const auto time = is == Is::until ? read_time_of_day(text) : std::nullopt)
    return next_local(*time, now);
  if (const auto instant = read_instant(text)) return *instant;
  if (is == Is::until)
    return tl::unexpected(
        fmt::format("'{}' is neither a time of day (08:00, by this machine's clock) nor a time "
                    "(2026-11-21T17:05:00Z, UTC "
                    "unless it has an offset)",
                    text));
  if (text == "now") return now;
  const bool minus = text.starts_with('-');
  const bool is_signed = minus || text.starts_with('+');
  const auto duration = levels::parse_duration(is_signed ? text.substr(1) : text);
  if (!duration)
    return tl::unexpected(
        fmt::format("'{}' is neither a time (2026-11-21T17:05:00Z, UTC unless it has an offset) nor a "
                    "duration (90s, 1h30m, 2d)",
                    text));
  const bool back = is_signed ? minus : is == Is::past;
  return back ? now - *duration : now + *duration;
}

std::string flag_of(const Field& field) {
  const std::string flags = flags_of(field);
  return flags.substr(0, flags.find(','));
}

void add_fields(CLI::App& c, std::span<const Field> fields, const std::string& group) {
  for (const Field& field : fields) {
    const std::string help = std::string(field.help) + time_help(field.is);
    if (field.is == Is::flag) {
      c.add_flag(flags_of(field), help)->group(group);
      continue;
    }
    CLI::Option* option =
        c.add_option(flags_of(field), help)->type_name(std::string(field.type))->group(group);
    if (field.is == Is::list || field.is == Is::pairs || field.is == Is::headers || field.is == Is::words)
      option->take_all();
    if (field.is == Is::words) option->delimiter(',');
    if (!field.words.empty())
      option->check(CLI::IsMember(std::vector<std::string>(field.words.begin(), field.words.end())));
    if (field.is == Is::number)
      option->check(
          CLI::Range(static_cast<std::int64_t>(field.least), static_cast<std::int64_t>(field.most)));
    if (field.is == Is::real) option->check(CLI::Range(field.least, field.most));
    option->check([field](const std::string& text) { return wrong_value(field, text); });
  }
}

CLI::Option& add_flag(CLI::App& c, const std::string& flags, const std::string& help) {
  return *c.add_flag(flags, help);
}

CLI::Option& add_text(CLI::App& c, const std::string& flags, const std::string& help,
                      const std::string& type) {
  return *c.add_option(flags, help)->type_name(type);
}

CLI::Option& add_words(CLI::App& c, const std::string& name, const std::string& help) {
  return *add_text(c, name, help).expected(CLI::detail::expected_max_vector_size);
}

bool is_on(const CLI::App& c, const std::string& flag) { return c.get_option(flag)->as<bool>(); }

std::string given_of(const CLI::App& c, std::span<const Field> fields) {
  for (const Field& field : fields) {
    Json request = Json::object();
    read_fields(c, {&field, 1}, EpochMs{}, request);
    if (!request.empty()) return flag_of(field);
  }
  return {};
}

std::string value_of(const CLI::App& c, const std::string& option) {
  const CLI::Option* has = c.get_option_no_throw(option);
  return has == nullptr || has->results().empty() ? std::string() : has->results().back();
}

void read_fields(const CLI::App& c, std::span<const Field> fields, EpochMs now, Json& request) {
  for (const Field& field : fields) {
    if (field.is == Is::flag && is_on(c, flag_of(field))) request[std::string(field.member)] = true;
    for (const std::string& text : c.get_option(flag_of(field))->results())
      add_value(field, text, now, request);
  }
}

Parameters read_params(const CLI::App& c, std::span<const Field> fields, EpochMs now) {
  Json request = Json::object();
  read_fields(c, fields, now, request);
  Parameters parameters;
  for (const auto& [name, value] : request.items())
    parameters.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  return parameters;
}

std::vector<Field> params_of(std::string_view operation, const std::vector<std::string_view>& without) {
  std::vector<Field> fields;
  for (const api::Route& route : api::api_routes()) {
    if (route.id != operation) continue;
    for (const api::Param& param : route.params) {
      const bool left_out = std::ranges::find(without, param.name) != without.end();
      if (!left_out && param.name != "limit" && param.name != "cursor") fields.push_back(field_of(param));
    }
  }
  return fields;
}

void add_page(CLI::App& c, std::size_t limit) {
  add_text(c, "--limit", "Maximum number of rows", "UINT")
      .check(CLI::Range(1, 10000))
      ->default_str(std::to_string(limit));
  add_text(c, "--cursor", "The next page: `next` of the previous one", "CURSOR");
}

Json read_page_of(const CLI::App& c, Session& session, const std::string& path, const Parameters& parameters,
                  const char* list) {
  return need(read_rows(*session.api, path, parameters, list, c.get_option("--limit")->as<std::size_t>(),
                        value_of(c, "--cursor")));
}

void suggest_queue(Session& session, const std::string& queue) {
  if (queue.empty()) return;
  const auto counted = session.api->get(with_query("/v1/tasks", {{"queue", queue}, {"count", "true"}}));
  if (!counted || number_of(*counted, "count") > 0) return;
  const auto known = read_rows(*session.api, "/v1/queues", {}, "queues");
  if (!known) return;
  std::vector<std::string> names;
  for (const Json& one : part_of(*known, "queues")) {
    // It may just have been paused.
    if (text_of(one, "queue") != queue || part_of(one, "attached").is_boolean())
      names.push_back(text_of(one, "queue"));
  }
  const std::string near = confile::did_you_mean(queue, names);
  if (!near.empty() && std::ranges::find(names, queue) == names.end())
    report_error(kUserError, "no queue " + confile::in_quotes(queue) + near);
}

// {"first_failed_after": "2026-...", "header.tenant": "acme"}
std::string filter_flags(const Json& filter) {
  std::string out;
  for (const auto& [name, value] : filter.items()) {
    if (!value.is_string()) continue;
    const bool header = name.starts_with(api::kHeaderParam);
    out += (out.empty() ? "" : " ") + (header ? "--header" : option_for(name));
    if (name == "outcome_unknown") continue;
    const std::string of = header ? name.substr(api::kHeaderParam.size()) + "=" : "";
    out += " " + rabbit::shell_quote(of + value.get<std::string>());
  }
  return out;
}

CLI::Option* add_count_by(CLI::App& c) {
  return &add_text(
      c, "--by",
      "With --count: by queue, error_type, tag, level, cause or header.NAME (one in index_headers)", "FIELD");
}

std::string counts_text(const Json& counts) {
  using enum Table::Align;
  Table table(
      {{"TASKS", right, 0, 0, text_cell("count")}, {text_of(counts, "by"), left, 0, 0, text_cell("value")}},
      part_of(counts, "groups"));
  if (const auto others = number_of(counts, "others"); others > 0)
    table.row({std::to_string(others), "(others)"});
  return table.whole_last().str();
}

}  // namespace rung::cli
