// rung stats: task counts, shard owners and problems. Its exit code is the health check.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "levels/duration.h"
#include "src/api/gates.h"
#include "src/api/nodes.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"
#include "src/core/base/rfc3339.h"

namespace rung::cli {
namespace {

struct StatsOptions {
  Common common;
  std::string max_overdue = "1m";
  bool watch = false, all = false;
};

struct Stats {
  std::vector<QueueStat> queues;
  std::vector<PromiseRow> promises;
  api::Nodes nodes;  // the live ones
  std::vector<DueEntry>
      late;  // beyond --max-overdue, oldest first; at most kMaxLatePerShard per shard and state
  std::vector<std::string> problems;
};

constexpr int kMaxLatePerShard = 100;  // enough to report a problem

Result<void> read(Store& store, EpochMs now, Ms max_overdue, Stats& stats) {
  auto queues = store.by_queue();
  if (!queues) return tl::unexpected(queues.error());
  stats.queues = *std::move(queues);
  auto promises = store.promises();
  if (!promises) return tl::unexpected(promises.error());
  stats.promises = *std::move(promises);
  auto nodes = api::read_nodes(store, now, false);
  if (!nodes) return tl::unexpected(nodes.error());
  stats.nodes = *std::move(nodes);
  std::erase_if(stats.nodes.rows,
                [&](const NodeRow& node) { return api::state_of(node, now) != api::NodeState::live; });
  std::vector<int> all(kShards);
  std::iota(all.begin(), all.end(), 0);
  // Publishes without a confirm, and silences that nobody ended, are overdue too.
  const auto gates = api::gates_in_force(store);
  if (!gates) return tl::unexpected(gates.error());
  std::vector<std::string> held_back;  // their tasks are late by intent
  for (const QueueGate& gate : *gates) held_back.push_back(gate.queue);
  for (const State state : {State::scheduled, State::publishing, State::awaiting}) {
    auto late = store.due(state, all, std::nullopt, now - max_overdue, kMaxLatePerShard, held_back);
    if (!late) return tl::unexpected(late.error());
    stats.late.insert(stats.late.end(), late->begin(), late->end());
  }
  std::ranges::sort(stats.late, {}, &DueEntry::at);
  return {};
}

void find_problems(Stats& stats, EpochMs now, Ms max_overdue) {
  for (const NodeRow& node : stats.nodes.rows) {
    for (const HealthProblem& p : node.problems)
      stats.problems.push_back(fmt::format("node {}: {}: {}", node.name, p.name, p.detail));
  }
  if (const std::size_t n = stats.nodes.unowned.shards.size(); n > 0) {
    stats.problems.push_back(
        fmt::format("{} of {} shards {} no live owner{}", n, kShards, n == 1 ? "has" : "have",
                    stats.nodes.rows.empty() ? ": no sidecar is running (rung run)" : ""));
  }
  if (const std::size_t n = stats.late.size(); n > 0) {
    stats.problems.push_back(fmt::format(
        "{}{} {} overdue by more than {}, the oldest ({}) by {}", n >= kMaxLatePerShard ? "at least " : "", n,
        n == 1 ? "task is" : "tasks are", levels::format_duration(max_overdue), stats.late.front().id.str(),
        humanise(now - stats.late.front().at)));
  }
}

// A task without a queue is a delay to an exchange (these counts do not list exchanges), or is parked because
// its queue is unknown.
std::string queue_cell(const QueueStat& q) {
  if (!q.queue.empty()) return q.queue;
  return q.state == State::parked ? "(by exchange, or none)" : "(by exchange)";
}

struct TaskSums {
  std::map<State, std::int64_t> tasks;
  std::int64_t overdue = 0;
};

TaskSums sums_of(const std::vector<QueueStat>& queues) {
  TaskSums sums;
  for (const QueueStat& q : queues) {
    sums.tasks[q.state] += q.tasks;
    sums.overdue += q.overdue;
  }
  return sums;
}

std::string sums_text(const TaskSums& sums) {
  std::string out;
  for (const auto& [state, tasks] : sums.tasks)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", tasks, to_word(state));
  return fmt::format("{}; {} overdue", out, sums.overdue);
}

Json sums_json(const TaskSums& sums) {
  Json json = Json::object();
  for (const auto& [state, tasks] : sums.tasks) json[std::string(to_word(state))] = tasks;
  return json;
}

std::string queues_text(const Stats& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  if (stats.queues.empty()) return "no tasks yet\n";
  Table table(
      {{"QUEUE", left, 12}, {"STATE", left}, {"TASKS", right}, {"OVERDUE", right}, {"OLDEST DUE", left}});
  for (const QueueStat& q : stats.queues) {
    table.row({queue_cell(q),
               {std::string(to_word(q.state)), colour_of(q.state)},
               std::to_string(q.tasks),
               {std::to_string(q.overdue), q.overdue > 0 ? Colour::red : Colour::none},
               q.oldest_due_at ? relative(*q.oldest_due_at, now) : "-"});
  }
  return table.str(terminal) + "\n" + "total: " + sums_text(sums_of(stats.queues)) + "\n";
}

// Of the deliveries that no gate held up; none: there were none.
std::optional<double> share_of(const PromiseCounts& counts) {
  const std::int64_t all = counts.in_time + counts.late;
  if (all == 0) return std::nullopt;
  return static_cast<double>(counts.in_time) / static_cast<double>(all);
}

// Rounded down: 100 % means that none was late.
std::string share_cell(const PromiseCounts& counts) {
  constexpr double kHundredths = 10'000;
  const auto share = share_of(counts);
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

Json promise_json(const PromiseCounts& counts) {
  const auto share = share_of(counts);
  return {{"share", share ? Json(*share) : Json()},
          {"in_time", counts.in_time},
          {"late", counts.late},
          {"gated", counts.gated}};
}

std::string nodes_text(const Stats& stats, EpochMs now, const Terminal& terminal) {
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

std::string stats_text(const Stats& stats, EpochMs now, const Terminal& terminal) {
  return queues_text(stats, now, terminal) + "\n" + promises_text(stats.promises, terminal) +
         nodes_text(stats, now, terminal);
}

Json stats_json(const Stats& stats, EpochMs now) {
  Json json = {{"healthy", stats.problems.empty()}, {"problems", stats.problems}};
  const TaskSums sums = sums_of(stats.queues);
  json["by_queue"] = Json::array();
  for (const QueueStat& q : stats.queues) {
    json["by_queue"].push_back(
        {{"queue", q.queue.empty() ? Json() : Json(q.queue)},
         {"state", to_word(q.state)},
         {"tasks", q.tasks},
         {"oldest_due_at", q.oldest_due_at ? Json(to_rfc3339(*q.oldest_due_at)) : Json()},
         {"overdue", q.overdue}});
  }
  json["late_by"] = Json::array();
  for (const PromiseRow& row : stats.promises) {
    json["late_by"].push_back({{"queue", row.queue},
                               {"last_hour", promise_json(row.last_hour)},
                               {"last_day", promise_json(row.last_day)}});
  }
  json["totals"] = sums_json(sums);
  json["overdue"] = sums.overdue;
  json["overdue_beyond_bound"] = stats.late.size();
  json["oldest_overdue_ms"] = stats.late.empty() ? Json() : Json((now - stats.late.front().at).count());
  json["nodes"] = Json::array();
  for (const NodeRow& node : stats.nodes.rows)
    json["nodes"].push_back(api::node_json(stats.nodes, node, now));
  json["unowned"] = api::unowned_json(stats.nodes, now);
  return json;
}

int show(Session& session, const StatsOptions& options, Ms max_overdue) {
  Stats stats;
  if (auto done = read(*session.store, session.now, max_overdue, stats); !done)
    return report_error(done.error());
  find_problems(stats, session.now, max_overdue);
  if (options.common.json) {
    print(dump(stats_json(stats, session.now)) + "\n");
  } else {
    const Terminal terminal = Terminal::of_stdout();
    print(stats_text(stats, session.now, terminal));
  }
  for (const std::string& problem : stats.problems) report_error(kUserError, problem);
  return stats.problems.empty() ? kSuccess : kUserError;
}

// One group of the config; keeps its connection until that fails.
struct GroupStats {
  std::string name;
  Session session = {};
  Stats stats = {};
  Exit code = kSuccess;

  // Errors go to stats.problems, also if the group could not be read.
  void refresh(const std::string& config, Ms max_overdue) {
    stats = {};
    code = kSuccess;
    if (auto done = read_all(config, max_overdue); !done) {
      session.store.reset();
      stats = {};
      stats.problems = {done.error().message};
      code = exit_of(done.error());
      return;
    }
    find_problems(stats, session.now, max_overdue);
    if (!stats.problems.empty()) code = kUserError;
  }

  bool available() const { return session.store != nullptr; }

 private:
  Result<void> read_all(const std::string& config, Ms max_overdue) {
    if (session.store == nullptr) {
      LoadedConfig loaded = load_config(config, ConfigFor::database, {name});
      if (!loaded.ok()) return permanent(loaded.problems.front().str());
      session.config = std::move(loaded.config);
      if (auto connected = connect(session); !connected) return connected;
    }
    const auto now = session.store->now();
    if (!now) return tl::unexpected(now.error());
    session.now = *now;
    return read(*session.store, session.now, max_overdue, stats);
  }
};

Json groups_json(const std::vector<GroupStats>& groups, const TaskSums& sums) {
  Json json = {{"healthy", std::ranges::all_of(groups, [](const auto& g) { return g.code == kSuccess; })},
               {"groups", Json::object()},
               {"totals", sums_json(sums)},
               {"overdue", sums.overdue}};
  for (const GroupStats& group : groups) {
    json["groups"][group.name] = group.available()
                                     ? stats_json(group.stats, group.session.now)
                                     : Json{{"healthy", false}, {"problems", group.stats.problems}};
  }
  return json;
}

std::string groups_text(const std::vector<GroupStats>& groups, const TaskSums& sums) {
  const Terminal terminal = Terminal::of_stdout();
  std::string out;
  for (const GroupStats& group : groups) {
    out += "group " + group.name + "\n";
    out += group.available() ? stats_text(group.stats, group.session.now, terminal)
                             : "unavailable: " + one_line(group.stats.problems.front()) + "\n";
    out += "\n";
  }
  const bool whole = std::ranges::all_of(groups, &GroupStats::available);
  return out + fmt::format("total of all {}groups: {}\n", whole ? "" : "available ",
                           sums.tasks.empty() ? "no tasks yet" : sums_text(sums));
}

// All groups, one after the other, even if some are unreachable. The exit code is the worst.
int show_groups(std::vector<GroupStats>& groups, const StatsOptions& options, Ms max_overdue) {
  const std::string config = find_config(options.common);
  TaskSums sums;
  int worst = kSuccess;
  for (GroupStats& group : groups) {
    group.refresh(config, max_overdue);
    worst = std::max<int>(worst, group.code);
    for (const auto& [state, tasks] : sums_of(group.stats.queues).tasks) sums.tasks[state] += tasks;
    sums.overdue += sums_of(group.stats.queues).overdue;
  }
  print(options.common.json ? dump(groups_json(groups, sums)) + "\n" : groups_text(groups, sums));
  for (const GroupStats& group : groups) {
    for (const std::string& problem : group.stats.problems)
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
    if (const int code = load(options.common, config, ConfigFor::broker); code != kSuccess) return code;
    if (!config.groups.empty()) return run_groups(config.groups, options, *max_overdue);
  }
  Session session;
  if (const int code = open_session(options.common, session); code != kSuccess) return code;
  const auto draw = [&] { return show(session, options, *max_overdue); };
  return options.watch ? watch(session, draw) : draw();
}

}  // namespace

void add_stats(CLI::App& app, int* exit) {
  auto o = std::make_shared<StatsOptions>();
  CLI::App& c = add_command(
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
