// rung nodes: which node owns which shards, since when, and how late they are.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/task_text.h"
#include "src/cli/text.h"
#include "src/cli/when.h"
#include "src/core/rfc3339.h"

namespace rung::cli {
namespace {

constexpr Ms kHiddenAfter = std::chrono::hours{24};  // older nodes are shown only with --all

struct NodesOptions {
  Common common;
  bool all = false;
  bool watch = false;
};

// The shards that a node owns by valid leases, or that nobody owns.
struct OwnedShards {
  std::vector<int> shards;
  std::optional<EpochMs> changed_at;  // when the latest of them was acquired
  std::int64_t overdue = 0;
  std::optional<EpochMs> oldest;  // due time of the oldest overdue task
};

enum class NodeState { live, dead, left };

struct Nodes {
  std::vector<NodeRow> rows;
  std::map<int, OwnedShards> held;
  OwnedShards unowned;
  std::size_t hidden = 0;  // number of nodes not shown
};

NodeState state_of(const NodeRow& node, EpochMs now) {
  if (node.expires_at > now) return NodeState::live;
  return node.expires_at > node.seen_at ? NodeState::dead
                                        : NodeState::left;  // a clean shutdown sets expires_at to now
}

std::string_view to_word(NodeState state) {
  switch (state) {
    case NodeState::live:
      return "live";
    case NodeState::dead:
      return "dead";
    default:
      return "left";
  }
}

EpochMs since(const NodeRow& node, EpochMs now) {
  return state_of(node, now) == NodeState::live ? node.started_at : node.expires_at;
}

// "0-20,43"
std::string ranges(const std::vector<int>& shards) {
  std::string out;
  for (std::size_t i = 0; i < shards.size();) {
    std::size_t last = i;
    while (last + 1 < shards.size() && shards[last + 1] == shards[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", shards[i]);
    if (last > i) out += fmt::format("-{}", shards[last]);
    i = last + 1;
  }
  return out.empty() ? "-" : out;
}

void add(OwnedShards& owned, const ShardRow& shard, const std::map<int, ShardOverdue>& late) {
  owned.shards.push_back(shard.shard);
  if (shard.acquired_at)
    owned.changed_at = std::max(owned.changed_at.value_or(EpochMs{}), *shard.acquired_at);
  const auto it = late.find(shard.shard);
  if (it == late.end()) return;
  owned.overdue += it->second.tasks;
  owned.oldest = std::min(owned.oldest.value_or(it->second.oldest), it->second.oldest);
}

Result<Nodes> read(Store& store, EpochMs now, bool all) {
  auto rows = store.nodes();
  if (!rows) return tl::unexpected(rows.error());
  const auto shards = store.shards();
  if (!shards) return tl::unexpected(shards.error());
  const auto overdue = store.overdue();
  if (!overdue) return tl::unexpected(overdue.error());
  std::map<int, ShardOverdue> late;
  for (const ShardOverdue& one : *overdue) late[one.shard] = one;
  Nodes nodes;
  for (const ShardRow& shard : *shards) {
    const bool held = shard.owner != 0 && shard.expires_at && *shard.expires_at > now;
    add(held ? nodes.held[shard.owner] : nodes.unowned, shard, late);
  }
  for (NodeRow& row : *rows) {
    const bool ended_long_ago = row.expires_at + kHiddenAfter < now && !nodes.held.contains(row.id);
    if (ended_long_ago && !all) {
      ++nodes.hidden;
    } else {
      nodes.rows.push_back(std::move(row));
    }
  }
  return nodes;
}

std::vector<Table::Cell> owned_cells(const OwnedShards& owned, EpochMs now) {
  return {std::to_string(owned.shards.size()),
          ranges(owned.shards),
          owned.changed_at ? relative(*owned.changed_at, now) : "-",
          {std::to_string(owned.overdue), owned.overdue > 0 ? Colour::yellow : Colour::none},
          owned.oldest ? age(*owned.oldest, now) : "-"};
}

std::string text(const Nodes& nodes, EpochMs now, const Terminal& terminal) {
  using enum Table::Align;
  Table table({{"NODE", left},
               {"STATE", left},
               {"SINCE", left},
               {"LAST SEEN", left},
               {"SHARDS", right},
               {"WHICH", left},
               {"ACQUIRED", left},
               {"OVERDUE", right},
               {"OLDEST", right},
               {"VERSION", left},
               {"ADDRESS", left}});
  static const OwnedShards kNothing;
  const auto row = [&](std::vector<Table::Cell> cells, const OwnedShards& owned, const std::string& version,
                       const std::string& address) {
    for (Table::Cell& cell : owned_cells(owned, now)) cells.push_back(std::move(cell));
    cells.emplace_back(version);
    cells.emplace_back(address);
    table.row(std::move(cells));
  };
  for (const NodeRow& node : nodes.rows) {
    const NodeState state = state_of(node, now);
    const auto held = nodes.held.find(node.id);
    const Colour colour = state == NodeState::live   ? Colour::green
                          : state == NodeState::dead ? Colour::red
                                                     : Colour::dim;
    row({node.name,
         {std::string(to_word(state)), colour},
         relative(since(node, now), now),
         relative(node.seen_at, now)},
        held == nodes.held.end() ? kNothing : held->second, node.version, node.address);
  }
  if (!nodes.unowned.shards.empty()) {
    OwnedShards unowned = nodes.unowned;
    unowned.changed_at.reset();
    row({"(unowned)", {"-", Colour::red}, "-", "-"}, unowned, "-", "-");
  }
  std::string out = table.str(terminal);
  for (const NodeRow& node : nodes.rows) {
    if (state_of(node, now) != NodeState::live) continue;
    for (const HealthProblem& p : node.problems)
      out += fmt::format("\n{}: {}: {}", one_line(node.name), one_line(p.name), one_line(p.detail));
    if (!node.problems.empty()) out += "\n";
  }
  if (nodes.hidden > 0)
    out += fmt::format("\nnot shown: {} nodes that ended over a day ago (see --all)\n", nodes.hidden);
  return out;
}

void put(Json& json, const OwnedShards& owned, EpochMs now) {
  json["shards"] = owned.shards;
  json["overdue"] = owned.overdue;
  json["oldest_overdue_ms"] = owned.oldest ? Json((now - *owned.oldest).count()) : Json();
}

Json problems_of(const NodeRow& node) {
  Json json = Json::array();
  for (const HealthProblem& p : node.problems)
    json.push_back({{"name", p.name}, {"detail", p.detail}, {"since", to_rfc3339(p.since)}});
  return json;
}

Json nodes_json(const Nodes& nodes, EpochMs now) {
  static const OwnedShards kNothing;
  Json json = {{"nodes", Json::array()}};
  for (const NodeRow& node : nodes.rows) {
    const auto it = nodes.held.find(node.id);
    const OwnedShards& owned = it == nodes.held.end() ? kNothing : it->second;
    Json one = {{"node", node.name},
                {"state", to_word(state_of(node, now))},
                {"since", to_rfc3339(since(node, now))},
                {"started_at", to_rfc3339(node.started_at)},
                {"seen_at", to_rfc3339(node.seen_at)},
                {"expires_at", to_rfc3339(node.expires_at)},
                {"version", node.version},
                {"address", node.address},
                {"problems", problems_of(node)},
                {"taken_at", owned.changed_at ? Json(to_rfc3339(*owned.changed_at)) : Json()}};
    put(one, owned, now);
    json["nodes"].push_back(std::move(one));
  }
  Json unowned;
  put(unowned, nodes.unowned, now);
  json["nobody"] = std::move(unowned);
  json["not_shown"] = nodes.hidden;
  return json;
}

int show(Session& session, const NodesOptions& options) {
  const auto nodes = read(*session.store, session.now, options.all);
  if (!nodes) return report_error(nodes.error());
  if (options.common.json) {
    print(dump(nodes_json(*nodes, session.now)) + "\n");
  } else {
    print(text(*nodes, session.now, Terminal::of_stdout()));
  }
  return kSuccess;
}

int run(const NodesOptions& options) {
  Session session;
  if (const int code = open_session(options.common, session); code != kSuccess) return code;
  const auto draw = [&] { return show(session, options); };
  return options.watch ? watch(session, draw) : draw();
}

}  // namespace

void add_nodes(CLI::App& app, int* exit) {
  auto o = std::make_shared<NodesOptions>();
  CLI::App& c = add_command(
      app, "nodes", "Shows which node owns which shards, and their overdue tasks",
      "Examples:\n"
      "  rung nodes\n"
      "  rung nodes --json | jq '.nobody.shards'    shards without an owner\n"
      "A node is live while it renews its lease, dead once the lease has expired, and left after a clean\n"
      "shutdown. OVERDUE counts scheduled tasks that are due. For a health check use rung stats.",
      o->common);
  c.add_flag("--all", o->all, "Include nodes that ended over a day ago");
  add_utc(c);
  add_watch(c, o->watch)->excludes("--json");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
