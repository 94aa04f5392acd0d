// rung run and check.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "src/cli/rules/explain.h"
#include "src/cli/run/run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

Json problems_json(const std::vector<ConfigProblem>& problems) {
  Json json = Json::array();
  for (const ConfigProblem& p : problems)
    json.push_back({{"file", p.file}, {"line", p.line}, {"column", p.column}, {"what", p.what}});
  return json;
}

Json queue_json(const QueueRules& queue) {
  const GiveUp& limit = queue.give_up;
  return {{"ladder", queue.ladder},
          {"rules", queue.rules.empty() ? Json() : Json(queue.rules)},
          {"give_up",
           {{"attempts", limit.attempts > 0 ? Json(limit.attempts) : Json()},
            {"after_ms", limit.after ? Json(limit.after->count()) : Json()}}},
          {"late_by_ms", queue.late_by ? Json(queue.late_by->count()) : Json()}};
}

Json traces_json(const OtelOptions& otel) {
  if (otel.endpoint.empty()) return {};
  Json names = Json::array();  // their values are secret
  for (const auto& [name, value] : otel.headers) names.push_back(name);
  return {{"endpoint", otel.endpoint}, {"protocol", "http/json"}, {"service", otel.service},
          {"headers", names},          {"verify", otel.verify},   {"sample", otel.sample}};
}

Json check_json(const LoadedConfig& loaded) {
  Json json = {{"ok", loaded.ok()},
               {"problems", problems_json(loaded.problems)},
               {"warnings", problems_json(loaded.warnings)}};
  if (const ApiOptions& api = loaded.config.api; !api.url.empty()) {
    json["api"] = {{"url", api.url},
                   {"token_file", api.token_file.empty() ? Json() : Json(api.token_file)},
                   {"ca", api.ca.empty() ? Json() : Json(api.ca)}};
  }
  if (!loaded.ok() || loaded.config.rules == nullptr) return json;
  for (const auto& [name, ladder] : loaded.config.rules->ladders()) {
    Json delays = Json::array();
    for (int level = 1; level <= ladder.levels(); ++level) delays.push_back(ladder.delay(level).count());
    json["ladders"][name] = {{"delays_ms", delays}, {"jitter", ladder.jitter()}};
  }
  json["defaults"] = {{"ladder", loaded.config.rules->defaults().ladder}};
  const TargetRules& targets = loaded.config.rules->targets();
  json["targets"] = {{"allow", targets.allow ? Json(*targets.allow) : Json()}, {"deny", targets.deny}};
  json["require_token"] = loaded.config.require_token ? Json(*loaded.config.require_token) : Json();
  for (const auto& [name, queue] : loaded.config.rules->queues()) json["queues"][name] = queue_json(queue);
  for (const RuleBook::PatternRules& entry : loaded.config.rules->patterns())
    json["patterns"].push_back({{"pattern", entry.pattern.text()}, {"rules", queue_json(entry.rules)}});
  for (const auto& [name, list] : loaded.config.rules->rule_lists()) {
    for (const FailureRule& rule : list->rules())
      json["rules"][name].push_back({{"rule", rule.name}, {"action", describe(rule.then)}});
  }
  for (const auto& [name, tag] : loaded.config.rules->tags()) {
    json["tags"][name] = {{"queue", tag.target.queue},
                          {"exchange", tag.target.exchange},
                          {"routing_key", tag.target.routing_key},
                          {"ladder", tag.ladder}};
  }
  for (const QueueGroups::Group& group : loaded.config.groups.all)
    json["groups"][group.name] = {{"prefix", group.prefix}, {"queues", group.queues}};
  json["retention_ms"] = loaded.config.retention ? Json(loaded.config.retention->count()) : Json();
  for (const ErrorQueue& queue : loaded.config.rules->error_queues().all()) {
    json["error_queues"].push_back({{"from", queue.from},
                                    {"dialect", queue.dialect->name},
                                    {"to", queue.to.empty() ? Json() : Json(queue.to)},
                                    {"ladder", !queue.retries         ? Json("none")
                                               : queue.ladder.empty() ? Json()
                                                                      : Json(queue.ladder)},
                                    {"parked", queue.returns ? "return" : "keep"}});
  }
  json["otel"] = traces_json(loaded.config.otel);
  for (const auto& [from, to] : loaded.config.delays) json["delays"].push_back({{"from", from}, {"to", to}});
  return json;
}

int check(const Common& common) {
  if (!common.json) {
    Config config;
    if (const int code = load_any(common, config, ConfigFor::check); code != kSuccess) return code;
    print(lines(describe(config), 0));
    return kSuccess;
  }
  const std::string path = find_config(common);
  if (path.empty()) {
    Config config;
    return load(common, config, ConfigFor::check);  // reports where it looked
  }
  const LoadedConfig loaded = load_config(path, ConfigFor::check, group_choice(common));
  print(dump(check_json(loaded)) + "\n");
  return loaded.ok() ? kSuccess : kUserError;
}

}  // namespace

void add_run(CLI::App& app, int* exit) {
  auto common = std::make_shared<Common>();
  CLI::App& c = *app.add_subcommand("run", "Runs the sidecar in the foreground");
  add_config_options(c, *common);
  c.footer(
      "\nExamples:\n"
      "  rung run -c rung.yaml\n"
      "  rung run --group eu              for one of the groups in the config\n"
      "SIGTERM and SIGINT: drain, then exit 0. SIGHUP: reload ladders and queues.");
  c.callback([common, exit] {
    const std::string path = find_config(*common);
    Config config;
    *exit =
        path.empty() ? load(*common, config, ConfigFor::sidecar) : run_sidecar(path, group_choice(*common));
  });
}

void add_check(CLI::App& app, int* exit) {
  auto common = std::make_shared<Common>();
  CLI::App& c = add_command(app, "check", "Validates the config and prints its ladders",
                            "Examples:\n"
                            "  rung check -c rung.yaml\n"
                            "  rung check --queue orders.eu           which entry it follows\n"
                            "  rung check --explain --queue orders --error \"HTTP 429\" --attempt 2\n"
                            "Prints errors on stderr, one per line, as file:line:column: what. Contacts no "
                            "server. A file named in the\n"
                            "config that cannot be read here is only a warning; rung run needs it.",
                            *common);
  auto options = std::make_shared<ExplainOptions>();
  add_explain_options(c, *options);
  c.callback([common, options, exit] {
    if (options->explain) {
      *exit = explain(*common, *options);
    } else {
      *exit = options->queue.empty() ? check(*common) : explain_queue(*common, *options);
    }
  });
}

}  // namespace rung::cli
