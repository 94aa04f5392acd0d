// rung check: validates the config. With --queue: which entry the queue follows; with --explain: what would
// happen to a failure, and which rule decides. rung dialects: how frameworks describe failures in their error
// queues.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/queues/rules.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct ExplainOptions {
  bool explain = false;
  std::string queue, error, type, reason, tag, age;
  std::vector<std::string> headers;  // NAME=VALUE
  int attempt = 0;                   // retries so far, the failed one included; 0 = the first delivery failed
};

// A failure as the options describe it, for POST /v1/simulate.
Result<Json> failure_of(const ExplainOptions& o) {
  Json failure = {{"queue", o.queue},   {"error", o.error},     {"error_type", o.type},     {"tag", o.tag},
                  {"reason", o.reason}, {"attempt", o.attempt}, {"headers", Json::object()}};
  if (!o.age.empty()) failure["age"] = o.age;
  for (const std::string& header : o.headers) {
    const auto equals = header.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent("--header " + header + ": write NAME=VALUE");
    failure["headers"][header.substr(0, equals)] = header.substr(equals + 1);
  }
  return failure;
}

std::string to_text(const Json& explained, const std::string& queue, const RuleBook& rules) {
  const std::string& list = rules.queue(queue).rules;
  std::string out =
      fmt::format("queue {}: {}\n", queue, list.empty() ? "no rules, the ladder decides" : "rules " + list);
  for (const Json& each : part_of(explained, "rules")) {
    out += fmt::format(
        "  {:<16} {}\n", text_of(each, "rule"),
        flag_of(each, "matches") ? "matches: " + text_of(each, "action") : "no: " + text_of(each, "why_not"));
  }
  if (!list.empty() && text_of(explained, "action").empty()) out += "  no rule matches: the ladder decides\n";
  const std::string cause = text_of(explained, "cause");
  return out + "result: " + text_of(explained, "result") +
         "\ncause: " + (cause.empty() ? "(no words)" : cause) + "\n";
}

// Adds --explain, and the options that need it.
void add_explain_options(CLI::App& check, ExplainOptions& o) {
  CLI::Option* explain =
      check.add_flag("--explain", o.explain,
                     "Print what would happen to a failure, which rule decides, and the text of its cause");
  const std::vector<CLI::Option*> all = {
      check.add_option(
          "--queue", o.queue,
          "Print which entry of the config this queue follows; with --explain: where the message failed"),
      check.add_option("--error", o.error, "Error text (header retry-error)"),
      check.add_option("--type", o.type, "Error type (header retry-error-type)"),
      check.add_option("--reason", o.reason, "rejected, expired, maxlen, delivery_limit, returned or silent")
          ->check(CLI::IsMember(failure_reasons())),
      check.add_option("--header", o.headers, "NAME=VALUE; may be repeated"),
      check.add_option("--tag", o.tag, "Tag of the message (property type)"),
      check.add_option("--attempt", o.attempt, "Which retry failed; 0: the first delivery")
          ->check(CLI::Range(0, 1'000'000)),
      check.add_option("--age", o.age, "Time since the first failure, e.g. 2h"),
  };
  // Alone, --queue says which entry the queue follows.
  for (CLI::Option* option : all) {
    if (option != all.front()) option->needs(explain);
  }
  explain->needs(all.front());
}

// --queue alone: which entry of the config the queue follows.
int explain_queue(const ExplainOptions& options) {
  Config config;
  if (const int code = load(config, ConfigFor::check, options.queue); code != kSuccess) return code;
  print(given().json ? dump(api::queue_config_json(*config.rules, options.queue)) + "\n"
                     : lines(describe_queue(config, options.queue), 0));
  return kSuccess;
}

int explain(const ExplainOptions& options) {
  Config config;
  if (const int code = load(config, ConfigFor::check, options.queue); code != kSuccess) return code;
  const RuleBook& rules = *config.rules;
  const auto failure = failure_of(options);
  if (!failure) return report_error(failure.error());
  try {
    const Json explained = api::explain_failure(*failure, rules, config.store.cause_rules.get());
    print(given().json ? dump(explained) + "\n" : lines(to_text(explained, options.queue, rules), 0));
    return kSuccess;
  } catch (const api::Problem& e) {
    return report_error({Error::Kind::permanent, "--" + e.detail});
  }
}

Json problems_json(const std::vector<ConfigProblem>& problems) {
  Json json = Json::array();
  for (const ConfigProblem& p : problems)
    json.push_back({{"file", p.file}, {"line", p.line}, {"column", p.column}, {"what", p.what}});
  return json;
}

Json check_json(const LoadedConfig& loaded) {
  Json json = {{"ok", loaded.ok()},
               {"problems", problems_json(loaded.problems)},
               {"warnings", problems_json(loaded.warnings)}};
  if (const ApiOptions& api = loaded.config.api; !api.url.empty()) {
    json["api"] = {{"url", api.url},
                   {"token_file", api::text_or_null(api.token_file)},
                   {"ca", api::text_or_null(api.ca)}};
  }
  if (loaded.ok() && loaded.config.rules != nullptr) json.update(api::config_json(*loaded.config.rules));
  return json;
}

int check() {
  if (!given().json) {
    Config config;
    if (const int code = load_any(config, ConfigFor::check); code != kSuccess) return code;
    print(lines(describe(config), 0));
    return kSuccess;
  }
  const std::string path = find_config();
  if (path.empty()) {
    Config config;
    return load(config, ConfigFor::check);  // reports where it looked
  }
  const LoadedConfig loaded = load_config(path, ConfigFor::check, group_choice());
  print_json(check_json(loaded));
  return loaded.ok() ? kSuccess : kUserError;
}

}  // namespace

void add_check(CLI::App& app, int* exit) {
  CLI::App& c = add_command(app, "check", "Validates the config and prints its ladders",
                            "Examples:\n"
                            "  rung check -c rung.yaml\n"
                            "  rung check --queue orders.eu           which entry it follows\n"
                            "  rung check --explain --queue orders --error \"HTTP 429\" --attempt 2\n"
                            "Prints errors on stderr, one per line, as file:line:column: what. Contacts no "
                            "server. A file named in the\n"
                            "config that cannot be read here is only a warning; rung run needs it.",
                            Takes::json);
  auto options = std::make_shared<ExplainOptions>();
  add_explain_options(c, *options);
  c.callback([options, exit] {
    if (options->explain) {
      *exit = explain(*options);
    } else {
      *exit = options->queue.empty() ? check() : explain_queue(*options);
    }
  });
}

// -------------------------------------------------------------------------------------------- rung dialects

namespace {

Json dialect_json(const Dialect& dialect) {
  return {{"name", dialect.name},       {"about", dialect.about}, {"versions", dialect.versions},
          {"sources", dialect.sources}, {"notes", dialect.notes}, {"remove", dialect.remove}};
}

std::string list_of(const std::string& title, const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += "\n  " + one_line(item);
  return out.empty() ? "" : "\n" + title + out + "\n";
}

std::string details(const Dialect& dialect) {
  return one_line(dialect.name + ": " + dialect.about) + "\n" +
         (dialect.versions.empty() ? "" : "\nversions: " + one_line(dialect.versions) + "\n") +
         list_of("notes", dialect.notes) +
         list_of("headers that are removed before a message goes back", dialect.remove) +
         list_of("sources", dialect.sources);
}

int dialects(const std::string& wanted) {
  Config config;
  config.dialects = built_in_dialects();
  // With a config, its own dialects too. None is needed.
  if (!find_config().empty()) {
    if (const int code = load(config, ConfigFor::check); code != kSuccess) return code;
  }
  if (!wanted.empty()) {
    const auto found = config.dialects.find(wanted);
    if (found == config.dialects.end())
      return report_error(kNotFound, "no dialect '" + wanted + "': `rung dialects` lists them");
    print(given().json ? dump(dialect_json(*found->second)) + "\n" : details(*found->second));
    return kSuccess;
  }
  if (given().json) {
    Json json = {{"dialects", Json::array()}};
    for (const auto& [name, dialect] : config.dialects) json["dialects"].push_back(dialect_json(*dialect));
    return print_json(json);
  }
  using enum Table::Align;
  Table table({{"NAME", left}, {"VERSIONS", left, 12, 1}, {"WHAT", left}});
  for (const auto& [name, dialect] : config.dialects)
    table.row({name, dialect->versions.empty() ? "-" : dialect->versions, dialect->about});
  print(table.str(Terminal::of_stdout()));
  return kSuccess;
}

}  // namespace

void add_dialects(CLI::App& app, int* exit) {
  auto o = std::make_shared<std::string>();
  CLI::App& c =
      add_command(app, "dialects", "Lists the dialects of error queues: how frameworks describe failures",
                  "Examples:\n"
                  "  rung dialects\n"
                  "  rung dialects masstransit     notes, removed headers, and where the facts come from\n"
                  "Needs no servers. With a config, its own dialects (dialects:) are listed too.",
                  Takes::json);
  c.add_option("NAME", *o, "One dialect");
  c.callback([o, exit] { *exit = dialects(*o); });
}

}  // namespace rung::cli
