// rung simulate: replays failures against a config.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "levels/duration.h"
#include "src/api/rules/failure_log.h"
#include "src/api/rules/past_failures.h"
#include "src/api/rules/replay.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/text.h"
#include "src/core/base/rfc3339.h"

namespace rung::cli {
namespace {

struct SimulationColumn {
  std::string title;   // "rung.yaml", "as it was"
  std::string source;  // for programs: "config", "history"
  api::ReplayTotals totals;
};

struct Simulation {
  std::string queue;
  EpochMs from, until;  // of the failures
  std::uint64_t seed = 1;
  bool cut = false;  // not all failures of the history were read
  SimulationColumn tried;
  std::optional<SimulationColumn> beside;
};

// How the time from the first delivery to the last is divided into lines.
struct LoadChart {
  EpochMs from;
  Ms width{0};
  std::size_t lines = 0;
};

using api::ReplayTotals;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kMostLines = 24;
constexpr std::size_t kBar = 28;
constexpr std::size_t kTitle = 24;  // a longer file name is shortened
constexpr std::array<Ms, 21> kWidths{
    seconds{1}, seconds{2}, seconds{5},  seconds{10}, seconds{15},   seconds{30},   minutes{1},
    minutes{2}, minutes{5}, minutes{10}, minutes{15}, minutes{30},   hours{1},      hours{2},
    hours{3},   hours{6},   hours{12},   hours{24},   hours{2 * 24}, hours{7 * 24}, hours{14 * 24}};

using Columns = std::vector<const SimulationColumn*>;

Columns columns_of(const Simulation& s) {
  Columns out{&s.tried};
  if (s.beside) out.push_back(&*s.beside);
  return out;
}

std::optional<Ms> median(const ReplayTotals& totals) {
  if (totals.to_success.empty()) return std::nullopt;
  return totals.to_success[(totals.to_success.size() - 1) / 2];
}
std::optional<Ms> longest(const ReplayTotals& totals) {
  if (totals.to_success.empty()) return std::nullopt;
  return totals.to_success.back();
}

std::string known(const std::optional<std::int64_t>& number) { return number ? grouped(*number) : "-"; }
std::string lasted(const std::optional<Ms>& time) { return time ? humanise(*time) : "-"; }

struct TotalsLine {
  std::string_view title;
  std::string (*value)(const ReplayTotals&);
  bool always = false;  // also if it is 0 in all columns
};

constexpr std::array<TotalsLine, 17> kTotals{{
    {"failed messages", [](const ReplayTotals& t) { return grouped(t.messages); }, true},
    {"attempts (deliveries)",
     [](const ReplayTotals& t) { return grouped(static_cast<std::int64_t>(t.deliveries.size())); }, true},
    {"succeeded", [](const ReplayTotals& t) { return grouped(t.succeeded); }, true},
    {"parked", [](const ReplayTotals& t) { return grouped(t.parked); }, true},
    {"  by give_up", [](const ReplayTotals& t) { return grouped(t.given_up); }},
    {"discarded", [](const ReplayTotals& t) { return grouped(t.discarded); }},
    {"cancelled", [](const ReplayTotals& t) { return grouped(t.cancelled); }},
    {"still waiting at the end", [](const ReplayTotals& t) { return grouped(t.waiting); }},
    {"held back", [](const ReplayTotals& t) { return grouped(t.held); }, true},
    {"  all together", [](const ReplayTotals& t) { return t.held > 0 ? humanise(t.held_total) : "-"; }},
    {"  the longest", [](const ReplayTotals& t) { return t.held > 0 ? humanise(t.held_longest) : "-"; }},
    {"breaker openings", [](const ReplayTotals& t) { return known(t.breaker_opened); }},
    {"  probes", [](const ReplayTotals& t) { return known(t.probes); }},
    {"until success: median", [](const ReplayTotals& t) { return lasted(median(t)); }},
    {"  the longest", [](const ReplayTotals& t) { return lasted(longest(t)); }},
    {"peak: deliveries a second",
     [](const ReplayTotals& t) { return grouped(api::peak_of(t.deliveries, seconds{1})); }},
    {"  deliveries a minute",
     [](const ReplayTotals& t) { return grouped(api::peak_of(t.deliveries, minutes{1})); }},
}};

std::string totals_text(const Columns& columns) {
  std::string out = fmt::format("{:<26}", "");
  for (const SimulationColumn* column : columns)
    out += fmt::format("  {:>{}}", shorten(one_line(column->title), kTitle), kTitle);
  out += "\n";
  for (const TotalsLine& line : kTotals) {
    std::string values;
    bool says_something = line.always;
    for (const SimulationColumn* column : columns) {
      const std::string value = line.value(column->totals);
      says_something = says_something || (value != "0" && value != "-");
      values += fmt::format("  {:>{}}", value, kTitle);
    }
    if (says_something) out += fmt::format("{:<26}{}\n", line.title, values);
  }
  return out;
}

std::vector<std::vector<std::int64_t>> loads(const Columns& columns, const LoadChart& chart) {
  std::vector<std::vector<std::int64_t>> out;
  out.reserve(columns.size());
  for (const SimulationColumn* column : columns)
    out.push_back(api::load_of(column->totals.deliveries, chart.from, chart.width, chart.lines));
  return out;
}

std::string chart_text(const Columns& columns, const LoadChart& chart) {
  const auto load = loads(columns, chart);
  std::int64_t most = 1;
  for (const auto& column : load) most = std::max(most, std::ranges::max(column));
  std::string out =
      fmt::format("load on the target: deliveries in each {} (UTC)\n", levels::format_duration(chart.width));
  for (std::size_t line = 0; line < chart.lines; ++line) {
    std::string text = format_utc(chart.from + chart.width * static_cast<std::int64_t>(line)).substr(5, 14);
    for (const auto& column : load) {
      const double share = static_cast<double>(column[line]) / static_cast<double>(most);
      // What is not none is seen.
      const auto bar = static_cast<std::size_t>(std::ceil(share * static_cast<double>(kBar)));
      text += fmt::format("  {:>9} {:<{}}", column[line] > 0 ? grouped(column[line]) : "",
                          std::string(bar, '#'), kBar);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

Json totals_json(const SimulationColumn& column) {
  const ReplayTotals& t = column.totals;
  return {{"source", column.source},
          {"name", column.title},
          {"messages", t.messages},
          {"attempts", t.deliveries.size()},
          {"succeeded", t.succeeded},
          {"parked", t.parked},
          {"given_up", t.given_up},
          {"discarded", t.discarded},
          {"cancelled", t.cancelled},
          {"waiting", t.waiting},
          {"held_back", t.held},
          {"held_back_total_ms", t.held_total.count()},
          {"held_back_longest_ms", t.held_longest.count()},
          {"breaker_openings", t.breaker_opened ? Json(*t.breaker_opened) : Json()},
          {"probes", t.probes ? Json(*t.probes) : Json()},
          {"until_success_median_ms", api::ms_or_null(median(t))},
          {"until_success_longest_ms", api::ms_or_null(longest(t))},
          {"peak_per_second", api::peak_of(t.deliveries, seconds{1})},
          {"peak_per_minute", api::peak_of(t.deliveries, minutes{1})},
          {"cut", t.cut}};
}

LoadChart load_chart(const Simulation& simulation) {
  std::optional<EpochMs> first, last;
  for (const SimulationColumn* column : columns_of(simulation)) {
    const auto& deliveries = column->totals.deliveries;
    if (deliveries.empty()) continue;
    first = std::min(first.value_or(deliveries.front()), deliveries.front());
    last = std::max(last.value_or(deliveries.back()), deliveries.back());
  }
  if (!first) return {};
  LoadChart chart;
  for (const Ms width : kWidths) {
    chart.width = width;
    chart.from = EpochMs{first->ms / width.count() * width.count()};
    chart.lines = static_cast<std::size_t>((*last - chart.from) / width) + 1;
    if (chart.lines <= kMostLines) return chart;
  }
  // Longer than a year: the last width, times what is needed.
  const Ms days{hours{24}};
  chart.width = days * ((*last - *first) / days / static_cast<std::int64_t>(kMostLines) + 1);
  chart.from = *first;
  chart.lines = static_cast<std::size_t>((*last - chart.from) / chart.width) + 1;
  return chart;
}

std::string to_text(const Simulation& s) {
  const Columns columns = columns_of(s);
  std::string out = fmt::format("queue {}: {} failed messages, {} to {} UTC\n\n", one_line(s.queue),
                                grouped(s.tried.totals.messages), format_utc(s.from).substr(0, 19),
                                format_utc(s.until).substr(0, 19));
  out += totals_text(columns) + "\n";
  if (const LoadChart chart = load_chart(s); chart.lines > 0) out += chart_text(columns, chart) + "\n";
  if (s.cut) out += "Only the newest failures were read: raise --limit to read more.\n";
  if (s.tried.totals.cut || (s.beside && s.beside->totals.cut))
    out += "The replay was ended early: too many deliveries. Messages under way count as still waiting.\n";
  out +=
      "A delivery fails until the time at which its message was seen to work, with the error that it had\n"
      "then; a message that was never seen to work always fails. Held back: 1 s or more behind a gate.\n";
  return out;
}

Json to_json(const Simulation& s) {
  const Columns columns = columns_of(s);
  const LoadChart chart = load_chart(s);
  const auto load = loads(columns, chart);
  Json lines = Json::array();
  for (std::size_t line = 0; line < chart.lines; ++line) {
    lines.push_back({{"at", to_rfc3339(chart.from + chart.width * static_cast<std::int64_t>(line))},
                     {"attempts", load[0][line]},
                     {"beside", s.beside ? Json(load[1][line]) : Json()}});
  }
  return {{"queue", s.queue},
          {"from", to_rfc3339(s.from)},
          {"until", to_rfc3339(s.until)},
          {"seed", s.seed},
          {"cut", s.cut},
          {"tried", totals_json(s.tried)},
          {"beside", s.beside ? totals_json(*s.beside) : Json()},
          {"load_ms", chart.width.count()},
          {"load", lines}};
}

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
