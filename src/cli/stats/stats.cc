// rung stats: task counts, shard owners and problems; its exit code is the health check. rung nodes: which
// node owns which shards, since when, and how late they are.
#include "src/api/stats/stats.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct StatsOptions {
  std::string max_overdue = "1m";
  bool watch = false, all = false;
};

std::string problem_text(const Json& node, const Json& problem) {
  return text_of(node, "node") + ": " + text_of(problem, "name") + ": " + text_of(problem, "detail");
}

// What was read, and what is wrong.
struct Health {
  Json stats = Json::object();
  std::vector<std::string> problems = {};
};

void find_problems(Health& found, Ms max_overdue) {
  const Json &stats = found.stats, &nodes = part_of(stats, "nodes");
  for (const Json& node : nodes) {
    for (const Json& p : part_of(node, "problems")) found.problems.push_back("node " + problem_text(node, p));
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

Result<Health> read_stats(Api& api, Ms max_overdue) {
  auto stats = api.get(with_query("/v1/stats", {{"max_overdue", levels::format_duration(max_overdue)}}));
  if (!stats) return tl::unexpected(stats.error());
  if (!part_of(*stats, "by_queue").is_array()) return tl::unexpected(api.strange("not as Rung writes it"));
  stats->erase("now");
  Health found{*std::move(stats)};
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

// In this colour unless it is 0.
Table::Cell count_cell(std::int64_t count, Colour colour) {
  return {std::to_string(count), count > 0 ? colour : Colour::none};
}
Table::CellOf overdue_cell(Colour colour) {
  return [colour](const Json& row) { return count_cell(number_of(row, "overdue"), colour); };
}

std::string queues_text(const Json& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  const Json& queues = part_of(stats, "by_queue");
  if (queues.empty() && part_of(stats, "ended_counted_at").is_string()) return "no tasks yet\n";
  Table table({{"QUEUE", left, 12, 0, queue_cell},
               {"STATE", left, 0, 0,
                [](const Json& q) { return Table::Cell(text_of(q, "state"), colour_of(state_of(q))); }},
               {"TASKS", right, 0, 0, number_cell("tasks")},
               {"OVERDUE", right, 0, 0, overdue_cell(Colour::red)},
               {"OLDEST DUE", left, 0, 0, time_cell("oldest_due_at", now)}},
              queues);
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
Table::CellOf span_cell(const char* span, const char* name, Colour colour) {
  return [=](const Json& row) { return count_cell(number_of(part_of(row, span), name), colour); };
}

std::string promises_text(const Json& stats, const Terminal& terminal) {
  using enum Table::Align;
  const Json& promises = part_of(stats, "late_by");
  if (promises.empty()) return "";
  std::vector<Table::Column> columns = {{"LATE BY", left, 12, 0, text_cell("queue")}};
  for (const auto& [title, span] : {std::pair("LAST HOUR", "last_hour"), {"LAST DAY", "last_day"}}) {
    columns.push_back({title, right, 0, 0, share_cell(span)});
    columns.push_back({"LATE", right, 0, 0, span_cell(span, "late", Colour::red)});
    columns.push_back({"GATED", right, 0, 0, span_cell(span, "gated", Colour::none)});
  }
  Table table(std::move(columns), promises);
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
               {"ADDRESS", left, 0, 0, text_cell("address")}},
              nodes);
  return out + table.str(terminal);
}

std::string stats_text(const Json& stats, EpochMs now, const Terminal& terminal) {
  return queues_text(stats, now, terminal) + "\n" + promises_text(stats, terminal) +
         owners_text(stats, now, terminal);
}

Json stats_json(const Health& found) {
  Json json = {{"healthy", found.problems.empty()}, {"problems", found.problems}};
  json.update(found.stats);
  return json;
}

int show(Session& session, Ms max_overdue) {
  const auto found = read_stats(*session.api, max_overdue);
  if (!found) return report_error(found.error());
  if (given().json) {
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
  Health found = {};
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
int show_groups(std::vector<GroupStats>& groups, Ms max_overdue) {
  const std::string config = find_config();
  int worst = kSuccess;
  for (GroupStats& group : groups) {
    group.refresh(config, max_overdue);
    worst = std::max<int>(worst, group.code);
  }
  const Sums sums = sums_of(groups);
  print(given().json ? dump(groups_json(groups, sums)) + "\n" : groups_text(groups, sums));
  for (const GroupStats& group : groups) {
    for (const std::string& problem : group.found.problems)
      report_error(group.code, "group " + group.name + ": " + problem);
  }
  return worst;
}

int run_groups(const QueueGroups& named, const StatsOptions& options, Ms max_overdue) {
  std::vector<GroupStats> groups;
  for (const QueueGroups::Group& group : named.all) groups.push_back({group.name});
  const auto draw = [&] { return show_groups(groups, max_overdue); };
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
    if (!given().group.empty()) return report_error(kUserError, "--all and --group cannot be combined");
    // Only for the list of groups; each group reports its own errors.
    Config config;
    if (given().api.url.empty()) {
      // ConfigFor::broker: no variables of databases are needed. An API has no groups.
      const LoadedConfig loaded = load_config(find_config(), ConfigFor::api);
      if (const int code = loaded.config.api.url.empty() ? load(config, ConfigFor::broker) : 0;
          code != kSuccess)
        return code;
    }
    if (!config.groups.empty()) return run_groups(config.groups, options, *max_overdue);
  }
  return open_and_draw(options.watch, "", [&](Session& session) { return show(session, *max_overdue); });
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
      "whose database is unreachable: the other groups are shown, and the exit code is the worst of all.");
  c.add_option("--max-overdue", o->max_overdue, "Fail if a task is overdue by more than this")
      ->type_name("DURATION")
      ->capture_default_str();
  add_watch(c, o->watch);
  c.add_flag("--all", o->all, "Every group in the config (if it has groups)");
  c.callback([o, exit] { *exit = run(*o); });
}

// --------------------------------------------------------------------------------------------- rung nodes

namespace {

struct NodesOptions {
  bool all = false;
  bool watch = false;
};

// "0-20,43"
std::string ranges(const Json& shards) {
  std::string out;
  for (std::size_t i = 0; i < shards.size();) {
    std::size_t last = i;
    while (last + 1 < shards.size() &&
           shards[last + 1] == shards[i].get<int>() + static_cast<int>(last + 1 - i))
      ++last;
    out += (out.empty() ? "" : ",") + dump(shards[i], false);
    if (last > i) out += "-" + dump(shards[last], false);
    i = last + 1;
  }
  return out.empty() ? "-" : out;
}

Table::Cell node_state_cell(const Json& node) {
  const std::string state = text_of(node, "state");
  if (state.empty()) return {"-", Colour::red};  // of nobody
  return {state, state == "live" ? Colour::green : state == "dead" ? Colour::red : Colour::dim};
}

Table::Cell config_cell(const Json& node) {
  const std::string config = text_of(node, "config").substr(0, 8);
  if (config.empty()) return "-";
  return flag_of(node, "config_differs") ? Table::Cell{config + " differs", Colour::yellow}
                                         : Table::Cell{config};
}

std::string nodes_text(const Json& page, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  const auto oldest = [now](const Json& node) {
    return part_of(node, "oldest_overdue_ms").is_number()
               ? age(now - Ms{number_of(node, "oldest_overdue_ms")}, now)
               : "-";
  };
  Table table({{"NODE", left, 0, 0, text_cell("node")},
               {"STATE", left, 0, 0, node_state_cell},
               {"SINCE", left, 0, 0, time_cell("since", now)},
               {"LAST SEEN", left, 0, 0, time_cell("seen_at", now)},
               {"SHARDS", right, 0, 0,
                [](const Json& node) { return std::to_string(part_of(node, "shards").size()); }},
               {"WHICH", left, 0, 0, [](const Json& node) { return ranges(part_of(node, "shards")); }},
               {"ACQUIRED", left, 0, 0, time_cell("taken_at", now)},
               {"OVERDUE", right, 0, 0, overdue_cell(Colour::yellow)},
               {"OLDEST", right, 0, 0, oldest},
               {"VERSION", left, 0, 0, text_cell("version")},
               {"ADDRESS", left, 0, 0, text_cell("address")},
               {"CONFIG", left, 0, 0, config_cell}});
  const Json& nodes = part_of(page, "nodes");
  for (const Json& node : nodes) table.add(node);
  if (Json unowned = part_of(page, "unowned"); !part_of(unowned, "shards").empty()) {
    unowned["node"] = "(unowned)";
    table.add(unowned);
  }
  std::string out = table.str(terminal);
  for (const Json& node : nodes) {
    const Json& problems = part_of(node, "problems");
    if (text_of(node, "state") != "live" || problems.empty()) continue;
    for (const Json& p : problems) out += "\n" + one_line(problem_text(node, p));
    out += "\n";
  }
  const auto differs = [](const Json& node) { return flag_of(node, "config_differs"); };
  if (std::any_of(nodes.begin(), nodes.end(), differs))
    out += "\nlive nodes have different configs: reload or restart those that are behind\n";
  if (const auto hidden = number_of(page, "not_shown"); hidden > 0)
    out += fmt::format("\nnot shown: {} nodes that ended over a day ago (see --all)\n", hidden);
  return out;
}

int show_nodes(Session& session, const NodesOptions& options) {
  return print_answer(read_rows(*session.api, "/v1/nodes", {{"all", options.all ? "true" : ""}}, "nodes"),
                      [&](const Json& page) { return nodes_text(page, session.now, Terminal::of_stdout()); });
}

}  // namespace

void add_nodes(CLI::App& app, int* exit) {
  auto o = std::make_shared<NodesOptions>();
  CLI::App& c = add_command(
      app, "nodes", "Shows which node owns which shards, and their overdue tasks",
      "Examples:\n"
      "  rung nodes\n"
      "  rung nodes --json | jq '.unowned.shards'   shards without an owner\n"
      "A node is live while it renews its lease, dead once the lease has expired, and left after a clean\n"
      "shutdown. OVERDUE counts scheduled tasks that are due. For a health check use rung stats.");
  c.add_flag("--all", o->all, "Include nodes that ended over a day ago");
  add_watch(c, o->watch);
  c.callback([o, exit] {
    *exit = open_and_draw(o->watch, "", [&](Session& session) { return show_nodes(session, *o); });
  });
}

}  // namespace rung::cli
