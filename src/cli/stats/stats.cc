// rung stats: task counts, shard owners and problems. Its exit code is the health check.
#include "src/api/stats/stats.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct StatsOptions {
  Common common;
  std::string max_overdue = "1m";
  bool watch = false, all = false;
};

// What was read, and what is wrong.
struct Findings {
  Json stats = Json::object();
  std::vector<std::string> problems = {};
};

void find_problems(Findings& found, Ms max_overdue) {
  const Json &stats = found.stats, &nodes = part_of(stats, "nodes");
  for (const Json& node : nodes) {
    for (const Json& p : part_of(node, "problems"))
      found.problems.push_back("node " + text_of(node, "node") + ": " + text_of(p, "name") + ": " +
                               text_of(p, "detail"));
  }
  if (const std::size_t n = part_of(part_of(stats, "unowned"), "shards").size(); n > 0) {
    found.problems.push_back(fmt::format("{} of {} shards {} no live owner{}", n, kShards,
                                         n == 1 ? "has" : "have",
                                         nodes.empty() ? ": no sidecar is running (rung run)" : ""));
  }
  if (const std::int64_t n = number_of(stats, "overdue_beyond_bound"); n > 0) {
    found.problems.push_back(fmt::format(
        "{}{} {} overdue by more than {}, the oldest ({}) by {}", n >= api::kMostLate ? "at least " : "", n,
        n == 1 ? "task is" : "tasks are", levels::format_duration(max_overdue),
        text_of(stats, "oldest_overdue_id"), humanise(Ms{number_of(stats, "oldest_overdue_ms")})));
  }
}

Result<Findings> read_stats(Api& api, Ms max_overdue) {
  auto stats = api.get(with_query("/v1/stats", {{"max_overdue", levels::format_duration(max_overdue)}}));
  if (!stats) return tl::unexpected(stats.error());
  if (!part_of(*stats, "by_queue").is_array()) return tl::unexpected(api.strange("not as Rung writes it"));
  stats->erase("now");
  Findings found{*std::move(stats)};
  find_problems(found, max_overdue);
  return found;
}

// A task without a queue is a delay to an exchange (these counts do not list exchanges), or is parked because
// its queue is unknown.
std::string queue_cell(const Json& row) {
  const std::string queue = text_of(row, "queue");
  if (!queue.empty()) return queue;
  return state_of(row) == State::parked ? "(by exchange, or none)" : "(by exchange)";
}

// `totals`: {"scheduled": 3, ...}
std::string sums_text(const Json& totals, std::int64_t overdue) {
  std::string out;
  for (const auto& [state, tasks] : totals.items())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", dump(tasks, false), one_line(state));
  return fmt::format("{}; {} overdue", out, overdue);
}

// Over HTTP, millions of ended tasks are counted now and then.
std::string counted_text(const Json& stats, EpochMs now) {
  const auto at = time_of(stats, "ended_counted_at");
  if (!at) return "; there are more ended tasks: they are still being counted";
  return *at >= now ? "" : "; ended tasks counted " + relative(*at, now);
}

Table::Cell overdue_of(const Json& row) {
  const std::int64_t overdue = number_of(row, "overdue");
  return {std::to_string(overdue), overdue > 0 ? Colour::red : Colour::none};
}

std::string queues_text(const Json& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  const Json& queues = part_of(stats, "by_queue");
  if (queues.empty() && part_of(stats, "ended_counted_at").is_string()) return "no tasks yet\n";
  Table table({{"QUEUE", left, 12, 0, queue_cell},
               {"STATE", left, 0, 0,
                [](const Json& q) { return Table::Cell(text_of(q, "state"), colour_of(state_of(q))); }},
               {"TASKS", right, 0, 0, number_cell("tasks")},
               {"OVERDUE", right, 0, 0, overdue_of},
               {"OLDEST DUE", left, 0, 0, time_cell("oldest_due_at", now)}});
  for (const Json& row : queues) table.add(row);
  return table.str(terminal) + "\n" +
         "total: " + sums_text(part_of(stats, "totals"), number_of(stats, "overdue")) +
         counted_text(stats, now) + "\n";
}

// Of a span. Rounded down: 100 % means that none was late.
Table::CellOf share_cell(const char* span) {
  return [span](const Json& row) {
    constexpr double kHundredths = 10'000;
    const Json& counts = part_of(row, span);
    return Table::Cell(part_of(counts, "share").is_number()
                           ? fmt::format("{:.2f} %", std::floor(real_of(counts, "share") * kHundredths) / 100)
                           : "-");
  };
}
Table::CellOf count_cell(const char* span, const char* name, Colour colour) {
  return [=](const Json& row) {
    const std::int64_t count = number_of(part_of(row, span), name);
    return Table::Cell(std::to_string(count), count > 0 ? colour : Colour::none);
  };
}

std::string promises_text(const Json& stats, const Terminal& terminal) {
  using enum Table::Align;
  const Json& promises = part_of(stats, "late_by");
  if (promises.empty()) return "";
  std::vector<Table::Column> columns = {{"LATE BY", left, 12, 0, text_cell("queue")}};
  for (const auto& [title, span] : {std::pair("LAST HOUR", "last_hour"), {"LAST DAY", "last_day"}}) {
    columns.push_back({title, right, 0, 0, share_cell(span)});
    columns.push_back({"LATE", right, 0, 0, count_cell(span, "late", Colour::red)});
    columns.push_back({"GATED", right, 0, 0, count_cell(span, "gated", Colour::none)});
  }
  Table table(std::move(columns));
  for (const Json& row : promises) table.add(row);
  return table.str(terminal) + "\n";
}

std::string owners_text(const Json& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  std::string out = fmt::format("shards owned: {} of {}\n",
                                kShards - part_of(part_of(stats, "unowned"), "shards").size(), kShards);
  const Json& nodes = part_of(stats, "nodes");
  if (nodes.empty()) return out + "live nodes: none\n";
  const auto up = [now](const Json& node) { return age(time_of(node, "started_at").value_or(now), now); };
  Table table({{"NODE", left, 12, 0, text_cell("node")},
               {"SHARDS", right, 0, 0,
                [](const Json& node) { return std::to_string(part_of(node, "shards").size()); }},
               {"UP", right, 0, 0, up},
               {"LAST SEEN", left, 0, 1, time_cell("seen_at", now)},
               {"VERSION", left, 0, 2, text_cell("version")},
               {"ADDRESS", left, 0, 0, text_cell("address")}});
  for (const Json& node : nodes) table.add(node);
  return out + table.str(terminal);
}

std::string stats_text(const Json& stats, EpochMs now, const Terminal& terminal) {
  return queues_text(stats, now, terminal) + "\n" + promises_text(stats, terminal) +
         owners_text(stats, now, terminal);
}

Json stats_json(const Findings& found) {
  Json json = {{"healthy", found.problems.empty()}, {"problems", found.problems}};
  json.update(found.stats);
  return json;
}

int show(Session& session, const StatsOptions& options, Ms max_overdue) {
  const auto found = read_stats(*session.api, max_overdue);
  if (!found) return report_error(found.error());
  if (options.common.json) {
    print_json(stats_json(*found));
  } else {
    print(stats_text(found->stats, session.now, Terminal::of_stdout()));
  }
  for (const std::string& problem : found->problems) report_error(kUserError, problem);
  return found->problems.empty() ? kSuccess : kUserError;
}

// One group of the config; keeps its connection until that fails.
struct GroupStats {
  std::string name;
  Session session = {};
  Findings found = {};
  Exit code = kSuccess;

  // Errors go to found.problems, also if the group could not be read.
  void refresh(const std::string& config, Ms max_overdue) {
    code = kSuccess;
    if (auto done = read_all(config, max_overdue); !done) {
      session.api.reset();
      found = {Json::object(), {done.error().message}};
      code = exit_of(done.error());
    } else if (!found.problems.empty()) {
      code = kUserError;
    }
  }

  bool available() const { return session.api != nullptr; }

 private:
  Result<void> read_all(const std::string& config, Ms max_overdue) {
    if (session.api == nullptr) {
      if (auto opened = open_group(config, {name}, session); !opened) return opened;
    }
    const auto now = session.api->now();
    if (!now) return tl::unexpected(now.error());
    session.now = *now;
    auto read = read_stats(*session.api, max_overdue);
    if (!read) return tl::unexpected(read.error());
    found = *std::move(read);
    return {};
  }
};

// Of all groups.
struct Sums {
  Json totals = Json::object();
  std::int64_t overdue = 0;
};

Sums sums_of(const std::vector<GroupStats>& groups) {
  Sums sums;
  for (const std::string_view state :
       {"scheduled", "publishing", "awaiting", "succeeded", "parked", "cancelled", "discarded"}) {
    std::int64_t tasks = 0;
    for (const GroupStats& group : groups) tasks += number_of(part_of(group.found.stats, "totals"), state);
    if (tasks > 0) sums.totals[std::string(state)] = tasks;
  }
  for (const GroupStats& group : groups) sums.overdue += number_of(group.found.stats, "overdue");
  return sums;
}

Json groups_json(const std::vector<GroupStats>& groups, const Sums& sums) {
  Json json = {{"healthy", std::ranges::all_of(groups, [](const auto& g) { return g.code == kSuccess; })},
               {"groups", Json::object()},
               {"totals", sums.totals},
               {"overdue", sums.overdue}};
  for (const GroupStats& group : groups) json["groups"][group.name] = stats_json(group.found);
  return json;
}

std::string groups_text(const std::vector<GroupStats>& groups, const Sums& sums) {
  const Terminal terminal = Terminal::of_stdout();
  std::string out;
  for (const GroupStats& group : groups) {
    out += "group " + group.name + "\n";
    out += group.available() ? stats_text(group.found.stats, group.session.now, terminal)
                             : "unavailable: " + one_line(group.found.problems.front()) + "\n";
    out += "\n";
  }
  const bool whole = std::ranges::all_of(groups, &GroupStats::available);
  return out + fmt::format("total of all {}groups: {}\n", whole ? "" : "available ",
                           sums.totals.empty() ? "no tasks yet" : sums_text(sums.totals, sums.overdue));
}

// All groups, one after the other, even if some are unreachable. The exit code is the worst.
int show_groups(std::vector<GroupStats>& groups, const StatsOptions& options, Ms max_overdue) {
  const std::string config = find_config(options.common);
  int worst = kSuccess;
  for (GroupStats& group : groups) {
    group.refresh(config, max_overdue);
    worst = std::max<int>(worst, group.code);
  }
  const Sums sums = sums_of(groups);
  print(options.common.json ? dump(groups_json(groups, sums)) + "\n" : groups_text(groups, sums));
  for (const GroupStats& group : groups) {
    for (const std::string& problem : group.found.problems)
      report_error(group.code, "group " + group.name + ": " + problem);
  }
  return worst;
}

int run_groups(const QueueGroups& named, const StatsOptions& options, Ms max_overdue) {
  std::vector<GroupStats> groups;
  for (const QueueGroups::Group& group : named.all) groups.push_back({group.name});
  const auto draw = [&] { return show_groups(groups, options, max_overdue); };
  if (!options.watch) return draw();
  const auto now = [clock = SystemClock()] { return Result<EpochMs>(clock.wall()); };
  return watch(now, [&] {
    draw();
    return kSuccess;  // an unreachable group is retried
  });
}

int run(const StatsOptions& options) {
  const auto max_overdue = levels::parse_duration(options.max_overdue);
  if (!max_overdue) return report_error(kUserError, "--max-overdue: " + max_overdue.error());
  if (options.all) {
    // Only for the list of groups; each group reports its own errors.
    Config config;
    if (options.common.api.url.empty()) {
      // ConfigFor::broker: no variables of databases are needed. An API has no groups.
      const LoadedConfig loaded = load_config(find_config(options.common), ConfigFor::api);
      if (const int code =
              loaded.config.api.url.empty() ? load(options.common, config, ConfigFor::broker) : 0;
          code != kSuccess)
        return code;
    }
    if (!config.groups.empty()) return run_groups(config.groups, options, *max_overdue);
  }
  Session session;
  if (const int code = open_service(options.common, session, "", ConfigFor::reading); code != kSuccess)
    return code;
  const auto draw = [&] { return show(session, options, *max_overdue); };
  return options.watch ? watch(session, draw) : draw();
}

}  // namespace

void add_stats(CLI::App& app, int* exit) {
  auto o = std::make_shared<StatsOptions>();
  CLI::App& c = add_service_command(
      app, "stats", "Shows task counts, shard owners and problems: a health check",
      "Examples:\n"
      "  rung stats\n"
      "  rung stats --json --max-overdue 5m    a health check: exit code 1 on problems\n"
      "  rung stats --all                      every group in the config, and the totals\n"
      "Problems: a shard without a live owner, tasks overdue by more than --max-overdue. With --all, also a "
      "group\n"
      "whose database is unreachable: the other groups are shown, and the exit code is the worst of all.",
      o->common);
  c.add_option("--max-overdue", o->max_overdue, "Fail if a task is overdue by more than this")
      ->type_name("DURATION")
      ->capture_default_str();
  add_utc(c);
  add_watch(c, o->watch)->excludes("--json");
  c.add_flag("--all", o->all, "Every group in the config (if it has groups)")->excludes("--group");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
