// rung nodes: which node owns which shards, since when, and how late they are.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct NodesOptions {
  Common common;
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

Table::Cell overdue_cell(const Json& node) {
  const std::int64_t overdue = number_of(node, "overdue");
  return {std::to_string(overdue), overdue > 0 ? Colour::yellow : Colour::none};
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
               {"OVERDUE", right, 0, 0, overdue_cell},
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
    for (const Json& p : problems)
      out += "\n" + one_line(text_of(node, "node") + ": " + text_of(p, "name") + ": " + text_of(p, "detail"));
    out += "\n";
  }
  const auto differs = [](const Json& node) { return flag_of(node, "config_differs"); };
  if (std::any_of(nodes.begin(), nodes.end(), differs))
    out += "\nlive nodes have different configs: reload or restart those that are behind\n";
  if (const auto hidden = number_of(page, "not_shown"); hidden > 0)
    out += fmt::format("\nnot shown: {} nodes that ended over a day ago (see --all)\n", hidden);
  return out;
}

int show(Session& session, const NodesOptions& options) {
  const auto page = read_rows(*session.api, "/v1/nodes", {{"all", options.all ? "true" : ""}}, "nodes");
  if (!page) return report_error(page.error());
  if (options.common.json) return print_json(*page);
  print(nodes_text(*page, session.now, Terminal::of_stdout()));
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
