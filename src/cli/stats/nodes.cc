// rung nodes: which node owns which shards, since when, and how late they are.
#include "src/api/stats/nodes.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"

namespace rung::cli {
namespace {

using api::differs;
using api::Nodes;
using api::NodeState;
using api::OwnedShards;
using api::since;
using api::state_of;

struct NodesOptions {
  Common common;
  bool all = false;
  bool watch = false;
};

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

std::vector<Table::Cell> owned_cells(const OwnedShards& owned, EpochMs now) {
  return {std::to_string(owned.shards.size()),
          ranges(owned.shards),
          owned.changed_at ? relative(*owned.changed_at, now) : "-",
          {std::to_string(owned.overdue), owned.overdue > 0 ? Colour::yellow : Colour::none},
          owned.oldest ? age(*owned.oldest, now) : "-"};
}

Table::Cell config_cell(const Nodes& nodes, const NodeRow& node, EpochMs now) {
  if (node.config.empty()) return "-";
  const std::string shown = node.config.substr(0, 8);
  return differs(nodes, node, now) ? Table::Cell{shown + " differs", Colour::yellow} : Table::Cell{shown};
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
               {"ADDRESS", left},
               {"CONFIG", left}});
  static const OwnedShards kNothing;
  const auto row = [&](std::vector<Table::Cell> cells, const OwnedShards& owned, Table::Cell config,
                       const std::string& version, const std::string& address) {
    for (Table::Cell& cell : owned_cells(owned, now)) cells.push_back(std::move(cell));
    cells.emplace_back(version);
    cells.emplace_back(address);
    cells.push_back(std::move(config));
    table.row(std::move(cells));
  };
  for (const NodeRow& node : nodes.rows) {
    const NodeState state = state_of(node, now);
    const auto held = nodes.held.find(node.id);
    const Colour colour = state == NodeState::live   ? Colour::green
                          : state == NodeState::dead ? Colour::red
                                                     : Colour::dim;
    row({node.name,
         {std::string(api::to_word(state)), colour},
         relative(since(node, now), now),
         relative(node.seen_at, now)},
        held == nodes.held.end() ? kNothing : held->second, config_cell(nodes, node, now), node.version,
        node.address);
  }
  if (!nodes.unowned.shards.empty()) {
    OwnedShards unowned = nodes.unowned;
    unowned.changed_at.reset();
    row({"(unowned)", {"-", Colour::red}, "-", "-"}, unowned, "-", "-", "-");
  }
  std::string out = table.str(terminal);
  for (const NodeRow& node : nodes.rows) {
    if (state_of(node, now) != NodeState::live) continue;
    for (const HealthProblem& p : node.problems)
      out += fmt::format("\n{}: {}: {}", one_line(node.name), one_line(p.name), one_line(p.detail));
    if (!node.problems.empty()) out += "\n";
  }
  if (nodes.differ) out += "\nlive nodes have different configs: reload or restart those that are behind\n";
  if (nodes.hidden > 0)
    out += fmt::format("\nnot shown: {} nodes that ended over a day ago (see --all)\n", nodes.hidden);
  return out;
}

int show(Session& session, const NodesOptions& options) {
  const auto nodes = session.service.system->nodes(session.now, options.all);
  if (!nodes) return report_error(nodes.error());
  if (options.common.json) return print_json(api::nodes_page(*nodes, session.now, api::whole_list()));
  print(text(*nodes, session.now, Terminal::of_stdout()));
  return kSuccess;
}

int run(const NodesOptions& options) {
  Session session;
  if (const int code = open_service(options.common, session, "", ConfigFor::reading); code != kSuccess)
    return code;
  const auto draw = [&] { return show(session, options); };
  return options.watch ? watch(session, draw) : draw();
}

}  // namespace

void add_nodes(CLI::App& app, int* exit) {
  auto o = std::make_shared<NodesOptions>();
  CLI::App& c = add_service_command(
      app, "nodes", "Shows which node owns which shards, and their overdue tasks",
      "Examples:\n"
      "  rung nodes\n"
      "  rung nodes --json | jq '.unowned.shards'   shards without an owner\n"
      "A node is live while it renews its lease, dead once the lease has expired, and left after a clean\n"
      "shutdown. OVERDUE counts scheduled tasks that are due. For a health check use rung stats.",
      o->common);
  c.add_flag("--all", o->all, "Include nodes that ended over a day ago");
  add_utc(c);
  add_watch(c, o->watch)->excludes("--json");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
