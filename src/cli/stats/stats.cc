// rung stats: task counts, shard owners and problems. Its exit code is the health check.
#include "src/api/stats/stats.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"

namespace rung::cli {
namespace {

struct StatsOptions {
  Common common;
  std::string max_overdue = "1m";
  bool watch = false, all = false;
};

// What was read, and what is wrong.
struct Findings {
  api::Stats stats;
  std::vector<std::string> problems;
};

void find_problems(Findings& found, EpochMs now, Ms max_overdue) {
  const api::Nodes& nodes = found.stats.nodes;
  const api::LateTasks& late = found.stats.late;
  for (const NodeRow& node : nodes.rows) {
    for (const HealthProblem& p : node.problems)
      found.problems.push_back(fmt::format("node {}: {}: {}", node.name, p.name, p.detail));
  }
  if (const std::size_t n = nodes.unowned.shards.size(); n > 0) {
    found.problems.push_back(fmt::format("{} of {} shards {} no live owner{}", n, kShards,
                                         n == 1 ? "has" : "have",
                                         nodes.rows.empty() ? ": no sidecar is running (rung run)" : ""));
  }
  if (const std::size_t n = late.tasks; n > 0) {
    found.problems.push_back(
        fmt::format("{}{} {} overdue by more than {}, the oldest ({}) by {}",
                    n >= api::kMostLate ? "at least " : "", n, n == 1 ? "task is" : "tasks are",
                    levels::format_duration(max_overdue), late.oldest.str(), humanise(now - late.due_at)));
  }
}

// A task without a queue is a delay to an exchange (these counts do not list exchanges), or is parked because
// its queue is unknown.
std::string queue_cell(const QueueStat& q) {
  if (!q.queue.empty()) return q.queue;
  return q.state == State::parked ? "(by exchange, or none)" : "(by exchange)";
}

std::string sums_text(const api::TaskSums& sums) {
  std::string out;
  for (const auto& [state, tasks] : sums.tasks)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", tasks, to_word(state));
  return fmt::format("{}; {} overdue", out, sums.overdue);
}

// Over HTTP, millions of ended tasks are counted now and then.
std::string counted_text(const api::TaskCount& tasks, EpochMs now) {
  if (!tasks.ended_at) return "; there are more ended tasks: they are still being counted";
  if (*tasks.ended_at >= now) return "";
  return "; ended tasks counted " + relative(*tasks.ended_at, now);
}

std::string queues_text(const api::Stats& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  if (stats.tasks.queues.empty() && stats.tasks.ended_at) return "no tasks yet\n";
  Table table(
      {{"QUEUE", left, 12}, {"STATE", left}, {"TASKS", right}, {"OVERDUE", right}, {"OLDEST DUE", left}});
  for (const QueueStat& q : stats.tasks.queues) {
    table.row({queue_cell(q),
               {std::string(to_word(q.state)), colour_of(q.state)},
               std::to_string(q.tasks),
               {std::to_string(q.overdue), q.overdue > 0 ? Colour::red : Colour::none},
               q.oldest_due_at ? relative(*q.oldest_due_at, now) : "-"});
  }
  return table.str(terminal) + "\n" + "total: " + sums_text(api::sums_of(stats.tasks.queues)) +
         counted_text(stats.tasks, now) + "\n";
}

// Rounded down: 100 % means that none was late.
std::string share_cell(const PromiseCounts& counts) {
  constexpr double kHundredths = 10'000;
  const auto share = api::share_of(counts);
  return share ? fmt::format("{:.2f} %", std::floor(*share * kHundredths) / 100) : "-";
}

std::string promises_text(const std::vector<PromiseRow>& promises, const Terminal& terminal) {
  using enum Table::Align;
  if (promises.empty()) return "";
  Table table({{"LATE BY", left, 12},
               {"LAST HOUR", right},
               {"LATE", right},
               {"GATED", right},
               {"LAST DAY", right},
               {"LATE", right},
               {"GATED", right}});
  for (const PromiseRow& row : promises) {
    const auto late = [](const PromiseCounts& counts) {
      return Table::Cell{std::to_string(counts.late), counts.late > 0 ? Colour::red : Colour::none};
    };
    table.row({row.queue, share_cell(row.last_hour), late(row.last_hour), std::to_string(row.last_hour.gated),
               share_cell(row.last_day), late(row.last_day), std::to_string(row.last_day.gated)});
  }
  return table.str(terminal) + "\n";
}

std::string nodes_text(const api::Stats& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  std::string out = fmt::format("shards owned: {} of {}\n",
                                kShards - static_cast<int>(stats.nodes.unowned.shards.size()), kShards);
  if (stats.nodes.rows.empty()) return out + "live nodes: none\n";
  Table table({{"NODE", left, 12},
               {"SHARDS", right},
               {"UP", right},
               {"LAST SEEN", left, 0, 1},
               {"VERSION", left, 0, 2},
               {"ADDRESS", left}});
  for (const NodeRow& n : stats.nodes.rows) {
    const auto it = stats.nodes.held.find(n.id);
    table.row({n.name, std::to_string(it == stats.nodes.held.end() ? 0 : it->second.shards.size()),
               age(n.started_at, now), relative(n.seen_at, now), n.version, n.address});
  }
  return out + table.str(terminal);
}

std::string stats_text(const api::Stats& stats, EpochMs now, const Terminal& terminal) {
  return queues_text(stats, now, terminal) + "\n" + promises_text(stats.promises, terminal) +
         nodes_text(stats, now, terminal);
}

Json stats_json(const Findings& found, EpochMs now) {
  Json json = {{"healthy", found.problems.empty()}, {"problems", found.problems}};
  json.update(api::to_json(found.stats, now));
  return json;
}

int show(Session& session, const StatsOptions& options, Ms max_overdue) {
  auto stats = session.service.system->stats(session.now, max_overdue);
  if (!stats) return report_error(stats.error());
  Findings found{*std::move(stats), {}};
  find_problems(found, session.now, max_overdue);
  if (options.common.json) {
    print_json(stats_json(found, session.now));
  } else {
    const Terminal terminal = Terminal::of_stdout();
    print(stats_text(found.stats, session.now, terminal));
  }
  for (const std::string& problem : found.problems) report_error(kUserError, problem);
  return found.problems.empty() ? kSuccess : kUserError;
}

// One group of the config; keeps its connection until that fails.
struct GroupStats {
  std::string name;
  Session session = {};
  Findings found = {};
  Exit code = kSuccess;

  // Errors go to found.problems, also if the group could not be read.
  void refresh(const std::string& config, Ms max_overdue) {
    found = {};
    code = kSuccess;
    if (auto done = read_all(config, max_overdue); !done) {
      session.service = {};
      session.store.reset();
      found = {};
      found.problems = {done.error().message};
      code = exit_of(done.error());
      return;
    }
    find_problems(found, session.now, max_overdue);
    if (!found.problems.empty()) code = kUserError;
  }

  bool available() const { return session.store != nullptr; }

 private:
  Result<void> read_all(const std::string& config, Ms max_overdue) {
    if (session.store == nullptr) {
      if (auto opened = open_group(config, {name}, session); !opened) return opened;
    }
    const auto now = session.store->now();
    if (!now) return tl::unexpected(now.error());
    session.now = *now;
    auto stats = session.service.system->stats(session.now, max_overdue);
    if (!stats) return tl::unexpected(stats.error());
    found.stats = *std::move(stats);
    return {};
  }
};

Json groups_json(const std::vector<GroupStats>& groups, const api::TaskSums& sums) {
  Json json = {{"healthy", std::ranges::all_of(groups, [](const auto& g) { return g.code == kSuccess; })},
               {"groups", Json::object()},
               {"totals", api::to_json(sums)},
               {"overdue", sums.overdue}};
  for (const GroupStats& group : groups) {
    json["groups"][group.name] = group.available()
                                     ? stats_json(group.found, group.session.now)
                                     : Json{{"healthy", false}, {"problems", group.found.problems}};
  }
  return json;
}

std::string groups_text(const std::vector<GroupStats>& groups, const api::TaskSums& sums) {
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
                           sums.tasks.empty() ? "no tasks yet" : sums_text(sums));
}

// All groups, one after the other, even if some are unreachable. The exit code is the worst.
int show_groups(std::vector<GroupStats>& groups, const StatsOptions& options, Ms max_overdue) {
  const std::string config = find_config(options.common);
  api::TaskSums sums;
  int worst = kSuccess;
  for (GroupStats& group : groups) {
    group.refresh(config, max_overdue);
    worst = std::max<int>(worst, group.code);
    for (const auto& [state, tasks] : api::sums_of(group.found.stats.tasks.queues).tasks)
      sums.tasks[state] += tasks;
    sums.overdue += api::sums_of(group.found.stats.tasks.queues).overdue;
  }
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
