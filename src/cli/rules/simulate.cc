// rung simulate: replays failures against a config.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/rules/failure_log.h"
#include "src/api/rules/past_failures.h"
#include "src/api/rules/replay.h"
#include "src/cli/rules/simulate_text.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"

namespace rung::cli {
namespace {

struct SimulateOptions {
  Common common;
  std::string queue, failures, from_history, against;
  std::uint64_t seed = 1;
  std::int64_t limit = 1'000'000;
};

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// Of the failures: the first, and the last.
void set_period(const api::FailureLog& log, Simulation& simulation) {
  simulation.from = simulation.until = log.messages().front().began();
  for (const api::FailedMessage& message : log.messages()) {
    simulation.from = std::min(simulation.from, message.began());
    simulation.until = std::max(simulation.until, message.failures.back().at);
  }
}

int print_simulation(const SimulateOptions& o, const Simulation& simulation) {
  print(o.common.json ? api::dump(to_json(simulation)) + "\n" : to_text(simulation));
  return kSuccess;
}

int report_lines(const std::string& file, const std::vector<std::string>& wrong) {
  for (const std::string& line : wrong) report_error(kUserError, file + ":" + line);
  return kUserError;
}

int from_file(const SimulateOptions& o) {
  Config config;
  if (const int code = load(o.common, config, ConfigFor::check, o.queue); code != kSuccess) return code;
  Config against;
  Common other = o.common;
  other.config = o.against;
  if (!o.against.empty()) {
    if (const int code = load(other, against, ConfigFor::check, o.queue); code != kSuccess) return code;
  }
  std::ifstream file;
  if (o.failures != "-") {
    file.open(o.failures, std::ios::binary);
    if (!file || std::filesystem::is_directory(o.failures))
      return report_error(kUserError, "cannot read " + o.failures);
  }
  const auto log = api::read_failure_log(o.failures == "-" ? std::cin : file, o.queue);
  if (!log) return report_lines(o.failures, log.error());
  if (log->messages().empty()) return report_error(kUserError, o.failures + " has no failures");

  Simulation simulation;
  simulation.queue = o.queue;
  simulation.seed = o.seed;
  set_period(*log, simulation);
  const api::ReplayOptions options{o.queue, o.seed, {}};
  simulation.tried = {file_name(find_config(o.common)), "config", api::replay(*log, *config.rules, options)};
  if (!o.against.empty())
    simulation.beside = {file_name(o.against), "config", api::replay(*log, *against.rules, options)};
  return print_simulation(o, simulation);
}

int from_history(const SimulateOptions& o) {
  const auto age = levels::parse_duration(o.from_history);
  if (!age) return report_error(kUserError, "--from-history " + o.from_history + ": " + age.error());
  Session session;
  if (const int code = open_session(o.common, session, o.queue); code != kSuccess) return code;
  const EpochMs since = session.now - *age;
  auto past = api::past_failures(*session.store, o.queue, since, o.limit);
  if (!past) return report_error(past.error());
  if (past->log.messages().empty()) {
    return report_error(kNotFound, "nothing has failed in queue " + o.queue + " in the last " +
                                       levels::format_duration(*age));
  }
  Simulation simulation;
  simulation.queue = o.queue;
  simulation.seed = o.seed;
  simulation.cut = past->cut;
  set_period(past->log, simulation);
  simulation.until = session.now;
  const api::ReplayOptions options{o.queue, o.seed, session.now};
  simulation.tried = {file_name(find_config(o.common)), "config",
                      api::replay(past->log, *session.config.rules, options)};
  simulation.beside = {"what happened", "history", std::move(past->present)};
  return print_simulation(o, simulation);
}

}  // namespace

void add_simulate(CLI::App& app, int* exit) {
  auto o = std::make_shared<SimulateOptions>();
  CLI::App& c = add_command(
      app, "simulate", "Replays failures against a config and prints what would have happened",
      "Examples:\n"
      "  rung simulate -c new.yaml --queue orders                       the failures of the last 7 days\n"
      "  rung simulate -c new.yaml --queue orders --from-history 24h\n"
      "  rung simulate -c new.yaml --queue orders --failures failures.jsonl --against rung.yaml\n"
      "Each line of --failures is a failed message: {\"at\": \"2026-11-21T17:05:00Z\", \"error\": \"HTTP "
      "503\",\n"
      "\"type\": \"HttpError\", \"works_after\": \"10m\"}; docs/try-a-config.md lists the fields. Changes "
      "nothing: "
      "with --failures\n"
      "it contacts no server, with --from-history it only reads the database of the config.",
      o->common);
  c.add_option("--queue", o->queue, "The queue in which the messages failed")->required()->type_name("QUEUE");
  CLI::Option* failures =
      c.add_option("--failures", o->failures, "Replay these failures: JSON Lines; - is stdin")
          ->type_name("FILE");
  CLI::Option* history = c.add_option("--from-history", o->from_history,
                                      "Replay the failures of this long, from the database (the default: 7d)")
                             ->type_name("DURATION")
                             ->excludes(failures);
  c.add_option("--against", o->against, "Beside it, the same failures with this config")
      ->type_name("FILE")
      ->needs(failures);
  c.add_option("--limit", o->limit, "With --from-history: at most so many messages, the newest")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000}))
      ->capture_default_str()
      ->excludes(failures);
  c.add_option("--seed", o->seed, "Of the jitter of ladders: the same seed, the same result")
      ->capture_default_str();
  c.callback([o, history, exit] {
    if (history->count() == 0) o->from_history = "7d";
    *exit = o->failures.empty() ? from_history(*o) : from_file(*o);
  });
}

}  // namespace rung::cli
