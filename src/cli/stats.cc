// rung stats: how much there is, who holds it, and whether it moves. Its exit code is the health check.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>
#include <numeric>

#include "levels/duration.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/story.h"
#include "src/cli/text.h"
#include "src/cli/when.h"
#include "src/core/rfc3339.h"

namespace rung::cli {
namespace {

struct StatsOptions {
  Common common;
  std::string max_overdue = "1m";
  bool watch = false;
};

struct Stats {
  std::vector<QueueStat> queues;
  std::vector<NodeRow> nodes;
  std::map<int, int> shards_of;  // by node
  std::vector<int> unheld;       // shards without a live owner
  std::vector<DueEntry> late;    // beyond --max-overdue, the longest first; kLatePerShard of a shard at most
  std::vector<std::string> problems;
};

constexpr int kLatePerShard = 100;  // more need not be counted to know that something is wrong

Result<void> read(Store& store, EpochMs now, Ms max_overdue, Stats& stats) {
  auto queues = store.by_queue();
  if (!queues) return tl::unexpected(queues.error());
  stats.queues = *std::move(queues);
  auto nodes = store.live_nodes();
  if (!nodes) return tl::unexpected(nodes.error());
  stats.nodes = *std::move(nodes);
  auto shards = store.shards();
  if (!shards) return tl::unexpected(shards.error());
  std::vector<bool> held(kShards, false);
  for (const ShardRow& row : *shards) {
    const bool alive = row.owner != 0 && row.expires_at && *row.expires_at >= now && row.shard >= 0 &&
                       row.shard < kShards &&
                       std::ranges::any_of(stats.nodes, [&](const NodeRow& n) { return n.id == row.owner; });
    if (!alive) continue;
    held[static_cast<std::size_t>(row.shard)] = true;
    ++stats.shards_of[row.owner];
  }
  for (int shard = 0; shard < kShards; ++shard) {
    if (!held[static_cast<std::size_t>(shard)]) stats.unheld.push_back(shard);
  }
  std::vector<int> all(kShards);
  std::iota(all.begin(), all.end(), 0);
  // Also what hangs on its way, and whose silence nobody noticed: it is overdue just the same.
  for (const State state : {State::scheduled, State::publishing, State::awaiting}) {
    auto late = store.due(state, all, std::nullopt, now - max_overdue, kLatePerShard);
    if (!late) return tl::unexpected(late.error());
    stats.late.insert(stats.late.end(), late->begin(), late->end());
  }
  std::ranges::sort(stats.late, {}, &DueEntry::at);
  return {};
}

void judge(Stats& stats, EpochMs now, Ms max_overdue) {
  for (const NodeRow& node : stats.nodes) {
    for (const HealthProblem& p : node.problems)
      stats.problems.push_back(fmt::format("node {}: {}: {}", node.name, p.name, p.detail));
  }
  if (const std::size_t n = stats.unheld.size(); n > 0) {
    stats.problems.push_back(fmt::format("{} of {} shards {} no live owner{}", n, kShards,
                                         n == 1 ? "has" : "have",
                                         stats.nodes.empty() ? ": no sidecar is running (rung run)" : ""));
  }
  if (const std::size_t n = stats.late.size(); n > 0) {
    stats.problems.push_back(fmt::format(
        "{}{} {} overdue by more than {}, the oldest ({}) by {}", n >= kLatePerShard ? "at least " : "", n,
        n == 1 ? "task is" : "tasks are", levels::format_duration(max_overdue), stats.late.front().id.str(),
        humanise(now - stats.late.front().at)));
  }
}

// What has no queue is a delay that goes to an exchange, which these counts don't tell apart; or is parked,
// because nothing says where it belongs.
std::string queue_cell(const QueueStat& q) {
  if (!q.queue.empty()) return q.queue;
  return q.state == State::parked ? "(by exchange, or none)" : "(by exchange)";
}

std::string queues_text(const Stats& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  if (stats.queues.empty()) return "no tasks yet\n";
  Table table(
      {{"QUEUE", left, 12}, {"STATE", left}, {"TASKS", right}, {"OVERDUE", right}, {"OLDEST DUE", left}});
  std::map<State, std::int64_t> totals;
  std::int64_t overdue = 0;
  for (const QueueStat& q : stats.queues) {
    totals[q.state] += q.tasks;
    overdue += q.overdue;
    table.row({queue_cell(q),
               {std::string(to_word(q.state)), colour_of(q.state)},
               std::to_string(q.tasks),
               {std::to_string(q.overdue), q.overdue > 0 ? Colour::red : Colour::none},
               q.oldest_due_at ? relative(*q.oldest_due_at, now) : "-"});
  }
  std::string out = table.str(terminal) + "\n";
  std::string sum;
  for (const auto& [state, tasks] : totals)
    sum += fmt::format("{}{} {}", sum.empty() ? "" : ", ", tasks, to_word(state));
  return out + fmt::format("all together: {}; {} overdue\n", sum, overdue);
}

std::string nodes_text(const Stats& stats, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  std::string out =
      fmt::format("shards held: {} of {}\n", kShards - static_cast<int>(stats.unheld.size()), kShards);
  if (stats.nodes.empty()) return out + "nodes alive: none\n";
  Table table({{"NODE", left, 12},
               {"SHARDS", right},
               {"UP", right},
               {"LAST SEEN", left, 0, 1},
               {"VERSION", left, 0, 2},
               {"ADDRESS", left}});
  for (const NodeRow& n : stats.nodes) {
    const auto it = stats.shards_of.find(n.id);
    table.row({n.name, std::to_string(it == stats.shards_of.end() ? 0 : it->second),
               humanise(now - n.started_at), relative(n.seen_at, now), n.version, n.address});
  }
  return out + table.str(terminal);
}

Json stats_json(const Stats& stats, EpochMs now) {
  Json json = {{"healthy", stats.problems.empty()}, {"problems", stats.problems}};
  Json totals = Json::object();
  std::int64_t overdue = 0;
  json["queues"] = Json::array();
  for (const QueueStat& q : stats.queues) {
    const std::string state(to_word(q.state));
    totals[state] = totals.value(state, std::int64_t{0}) + q.tasks;
    overdue += q.overdue;
    json["queues"].push_back(
        {{"queue", q.queue.empty() ? Json() : Json(q.queue)},
         {"state", state},
         {"tasks", q.tasks},
         {"oldest_due_at", q.oldest_due_at ? Json(to_rfc3339(*q.oldest_due_at)) : Json()},
         {"overdue", q.overdue}});
  }
  json["totals"] = totals;
  json["overdue"] = overdue;
  json["overdue_beyond_bound"] = stats.late.size();
  json["oldest_overdue_ms"] = stats.late.empty() ? Json() : Json((now - stats.late.front().at).count());
  json["shards"] = {
      {"all", kShards}, {"held", kShards - static_cast<int>(stats.unheld.size())}, {"unheld", stats.unheld}};
  json["nodes"] = Json::array();
  for (const NodeRow& n : stats.nodes) {
    const auto it = stats.shards_of.find(n.id);
    json["nodes"].push_back({{"node", n.name},
                             {"shards", it == stats.shards_of.end() ? 0 : it->second},
                             {"started_at", to_rfc3339(n.started_at)},
                             {"seen_at", to_rfc3339(n.seen_at)},
                             {"version", n.version},
                             {"address", n.address}});
  }
  return json;
}

int show(Session& session, const StatsOptions& options, Ms max_overdue) {
  Stats stats;
  if (auto done = read(*session.store, session.now, max_overdue, stats); !done) return complain(done.error());
  judge(stats, session.now, max_overdue);
  if (options.common.json) {
    print(dump(stats_json(stats, session.now)) + "\n");
  } else {
    const Terminal terminal = Terminal::of_stdout();
    print(queues_text(stats, session.now, terminal) + "\n" + nodes_text(stats, session.now, terminal));
  }
  for (const std::string& problem : stats.problems) complain(kMistake, problem);
  return stats.problems.empty() ? kDone : kMistake;
}

int run(const StatsOptions& options) {
  const auto max_overdue = levels::parse_duration(options.max_overdue);
  if (!max_overdue) return complain(kMistake, "--max-overdue: " + max_overdue.error());
  Session session;
  if (const int code = open_session(options.common, session); code != kDone) return code;
  const auto draw = [&] { return show(session, options, *max_overdue); };
  return options.watch ? watch(session, draw) : draw();
}

}  // namespace

void add_stats(CLI::App& app, int* exit) {
  auto o = std::make_shared<StatsOptions>();
  CLI::App& c =
      add_command(app, "stats", "How much there is, who holds it, and whether it moves",
                  "Examples:\n"
                  "  rung stats\n"
                  "  rung stats --json --max-overdue 5m    a health check: exit 1 while something is wrong\n"
                  "Wrong is: a shard that no live sidecar owns, or tasks overdue by more than the bound.",
                  o->common);
  c.add_option("--max-overdue", o->max_overdue, "How late a task may be before this fails")
      ->type_name("DURATION")
      ->capture_default_str();
  add_watch(c, o->watch)->excludes("--json");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
