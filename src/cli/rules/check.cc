// rung check: validates the config. With --queue: which entry the queue follows; with --explain: what would
// happen to a failure, and which rule decides. rung dialects: how frameworks describe failures in their error
// queues.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/queues/queues.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

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

// --queue alone: which entry of the config the queue follows.
int explain_queue(const std::string& queue) {
  const Config config = load(ConfigFor::check, queue);
  return print_answer(api::queue_config_json(*config.rules, queue),
                      [&](const Json&) { return lines(describe_queue(config, queue), 0); });
}

int explain(const CLI::App& c, std::span<const Field> fields, const std::string& queue) {
  const Config config = load(ConfigFor::check, queue);
  const RuleBook& rules = *config.rules;
  Json request = {{"queue", queue}};
  read_fields(c, fields, EpochMs{}, request);
  try {
    return print_answer(api::explain_failure(request, rules, config.store.cause_rules.get()),
                        [&](const Json& explained) { return lines(to_text(explained, queue, rules), 0); });
  } catch (const api::Problem& e) {
    throw Failed(error_of({e.status, e.json("")}, [&](std::string_view member) {
      const auto field = std::ranges::find(fields, member, &Field::member);
      return field == fields.end() ? option_for(member) : flag_of(*field);
    }));
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
  if (!given().json || find_config().empty()) {  // load() reports where it looked
    print(lines(describe(load(ConfigFor::check, {}, true)), 0));
    return kSuccess;
  }
  const LoadedConfig loaded = load_config(find_config(), ConfigFor::check, group_choice());
  print_json(check_json(loaded));
  return loaded.ok() ? kSuccess : kUserError;
}

// -------------------------------------------------------------------------------------------- rung dialects

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

int dialects(const CLI::App& c) {
  const std::string wanted = value_of(c, "NAME");
  Config config;
  config.dialects = built_in_dialects();
  // With a config, its own dialects too. None is needed.
  if (!find_config().empty()) config = load(ConfigFor::check);
  if (!wanted.empty()) {
    const auto found = config.dialects.find(wanted);
    if (found == config.dialects.end())
      throw Failed(kNotFound, "no dialect '" + wanted + "': `rung dialects` lists them");
    return print_answer(dialect_json(*found->second), [&](const Json&) { return details(*found->second); });
  }
  Json json = {{"dialects", Json::array()}};
  for (const auto& [name, dialect] : config.dialects) json["dialects"].push_back(dialect_json(*dialect));
  return print_answer(json, [](const Json& all) {
    using enum Table::Align;
    return Table({{"NAME", left, 0, 0, text_cell("name")},
                  {"VERSIONS", left, 12, 1, text_cell("versions")},
                  {"WHAT", left, 0, 0, text_cell("about")}},
                 part_of(all, "dialects"))
        .str();
  });
}

}  // namespace

void add_check(CLI::App& app) {
  static constexpr Field kQueue{
      "queue", Is::text, "QUEUE",
      "Print which entry of the config this queue follows; with --explain: where the message failed"};
  static constexpr Field kFailure[] = {
      {"error", Is::text, "TEXT", "Error text (header retry-error)"},
      {"error_type", Is::text, "TEXT", "Error type (header retry-error-type)", "--type"},
      {"reason", Is::text, "TEXT", "rejected, expired, maxlen, delivery_limit, returned or silent"},
      {"headers", Is::pairs, "NAME=VALUE", "A header of the message; may be repeated", "--header"},
      {"tag", Is::text, "TEXT", "Tag of the message (property type)"},
      {"attempt", Is::number, "N", "Which retry failed; 0: the first delivery", "", 0, 1e6},
      {"age", Is::duration, "DURATION", "Time since the first failure, e.g. 2h"}};
  CLI::App& c = add_command(
      app, "check", "Validates the config and prints its ladders",
      "Examples:\n"
      "  rung check -c rung.yaml\n"
      "  rung check --queue orders.eu           which entry it follows\n"
      "  rung check --explain --queue orders --error \"HTTP 429\" --attempt 2\n"
      "Prints errors on stderr, one per line, as file:line:column: what. Contacts no server. A file\n"
      "named in the config that cannot be read here is only a warning; rung run needs it.",
      [](const CLI::App& command) {
        const std::string queue = value_of(command, "--queue");
        if (is_on(command, "--explain")) return explain(command, kFailure, queue);
        return queue.empty() ? check() : explain_queue(queue);
      },
      Takes::json);
  add_fields(c, {&kQueue, 1});
  add_fields(c, kFailure);
  c.get_option("--reason")->check(CLI::IsMember(failure_reasons()));
  CLI::Option* with =
      add_flag(c, "--explain",
               "Print what would happen to a failure, which rule decides, and the text of its cause")
          .needs("--queue");
  for (const Field& field : kFailure) c.get_option(flag_of(field))->needs(with);

  CLI::App& list =
      add_command(app, "dialects", "Lists the dialects of error queues: how frameworks describe failures",
                  "Examples:\n"
                  "  rung dialects\n"
                  "  rung dialects masstransit     notes, removed headers, and where the facts come from\n"
                  "Needs no servers. With a config, its own dialects (dialects:) are listed too.",
                  dialects, Takes::json);
  add_text(list, "NAME", "One dialect");
}

}  // namespace rung::cli
