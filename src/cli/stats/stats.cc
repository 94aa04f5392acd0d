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
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

std::string problem_text(const Json& node, const Json& problem) {
  return text_of(node, "node") + ": " + text_of(problem, "name") + ": " + text_of(problem, "detail");
}

std::vector<std::string> problems_of(const Json& stats, Ms max_overdue) {
  std::vector<std::string> problems;
  const Json& nodes = part_of(stats, "nodes");
  for (const Json& node : nodes) {
    for (const Json& p : part_of(node, "problems")) problems.push_back("node " + problem_text(node, p));
  }
  if (const std::size_t n = part_of(part_of(stats, "unowned"), "shards").size(); n > 0) {
    problems.push_back(fmt::format("{} of {} shards {} no live owner{}", n, kShards, n == 1 ? "has" : "have",
                                   nodes.empty() ? ": no sidecar is running (rung run)" : ""));
  }
  if (const std::int64_t n = number_of(stats, "overdue_beyond_bound"); n > 0) {
    problems.push_back(fmt::format(
        "{}{} {} overdue by more than {}, the oldest ({}) by {}", n >= api::kMostLate ? "at least " : "", n,
        n == 1 ? "task is" : "tasks are", levels::format_duration(max_overdue),
        text_of(stats, "oldest_overdue_id"), humanise(Ms{number_of(stats, "oldest_overdue_ms")})));
  }
  return problems;
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

std::string queues_text(const Json& stats, EpochMs now) {
  using enum Table::Align;
  const Json& queues = part_of(stats, "by_queue");
  if (queues.empty() && part_of(stats, "ended_counted_at").is_string()) return "no tasks yet\n";
  Table table({{"QUEUE", left, 12, 0, text_cell("queue")},
               {"STATE", left, 0, 0, text_cell("state")},
               {"TASKS", right, 0, 0, text_cell("tasks")},
               {"OVERDUE", right, 0, 0, text_cell("overdue")},
               {"OLDEST DUE", left, 0, 0, time_cell("oldest_due_at", now)}},
              queues);
  return table.str() + "\n" + "total: " + sums_text(part_of(stats, "totals"), number_of(stats, "overdue")) +
         counted_text(stats, now) + "\n";
}

// Of a span. Rounded down: 100 % means that none was late.
Table::CellOf share_cell(const char* span) {
  return [span](const Json& row) {
    constexpr double kHundredths = 10'000;
    const Json& counts = part_of(row, span);
    return part_of(counts, "share").is_number()
               ? fmt::format("{:.2f} %", std::floor(real_of(counts, "share") * kHundredths) / 100)
               : "-";
  };
}
Table::CellOf span_cell(const char* span, const char* name) {
  return [=](const Json& row) { return text_cell(name)(part_of(row, span)); };
}

std::string promises_text(const Json& stats) {
  using enum Table::Align;
  const Json& promises = part_of(stats, "late_by");
  if (promises.empty()) return "";
  std::vector<Table::Column> columns = {{"LATE BY", left, 12, 0, text_cell("queue")}};
  for (const auto& [title, span] : {std::pair("LAST HOUR", "last_hour"), {"LAST DAY", "last_day"}}) {
    columns.push_back({title, right, 0, 0, share_cell(span)});
    columns.push_back({"LATE", right, 0, 0, span_cell(span, "late")});
    columns.push_back({"GATED", right, 0, 0, span_cell(span, "gated")});
  }
  return Table(std::move(columns), promises).str() + "\n";
}

std::string owners_text(const Json& stats) {
  std::string names;
  for (const Json& node : part_of(stats, "nodes"))
    names += (names.empty() ? "" : ", ") + text_of(node, "node");
  return one_line(fmt::format("shards owned: {} of {}; live nodes: {}",
                              kShards - part_of(part_of(stats, "unowned"), "shards").size(), kShards,
                              names.empty() ? "none" : names)) +
         "\n";
}

int show(Session& session, Ms max_overdue) {
  Json stats = need(
      session.api->get(with_query("/v1/stats", {{"max_overdue", levels::format_duration(max_overdue)}})));
  if (!part_of(stats, "by_queue").is_array()) throw Failed(session.api->strange("not as Rung writes it"));
  stats.erase("now");
  const std::vector<std::string> problems = problems_of(stats, max_overdue);
  Json json = {{"healthy", problems.empty()}, {"problems", problems}};
  json.update(stats);
  print_answer(json, [&](const Json&) {
    return queues_text(stats, session.now) + "\n" + promises_text(stats) + owners_text(stats);
  });
  for (const std::string& problem : problems) report_error(kUserError, problem);
  return problems.empty() ? kSuccess : kUserError;
}

// --------------------------------------------------------------------------------------------- rung nodes

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

std::string nodes_text(const Json& page, EpochMs now) {
  using enum Table::Align;
  const Json& nodes = part_of(page, "nodes");
  const auto config = [](const Json& node) {
    const std::string short_form = text_of(node, "config").substr(0, 8);
    return short_form.empty() ? "-" : short_form + (flag_of(node, "config_differs") ? " differs" : "");
  };
  const auto oldest = [now](const Json& node) {
    return part_of(node, "oldest_overdue_ms").is_number()
               ? age(now - Ms{number_of(node, "oldest_overdue_ms")}, now)
               : "-";
  };
  Table table({{"NODE", left, 0, 0, text_cell("node")},
               {"STATE", left, 0, 0, text_cell("state")},
               {"SINCE", left, 0, 0, time_cell("since", now)},
               {"LAST SEEN", left, 0, 0, time_cell("seen_at", now)},
               {"SHARDS", right, 0, 0,
                [](const Json& node) { return std::to_string(part_of(node, "shards").size()); }},
               {"WHICH", left, 0, 0, [](const Json& node) { return ranges(part_of(node, "shards")); }},
               {"ACQUIRED", left, 0, 0, time_cell("taken_at", now)},
               {"OVERDUE", right, 0, 0, text_cell("overdue")},
               {"OLDEST", right, 0, 0, oldest},
               {"VERSION", left, 0, 0, text_cell("version")},
               {"ADDRESS", left, 0, 0, text_cell("address")},
               {"CONFIG", left, 0, 0, config}},
              nodes);
  if (Json unowned = part_of(page, "unowned"); !part_of(unowned, "shards").empty()) {
    unowned["node"] = "(unowned)";
    table.add(unowned);
  }
  std::string out = table.str();
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
    out += fmt::format("\nnot shown: {} nodes that ended over a day ago (see --include-ended)\n", hidden);
  return out;
}

int show_nodes(Session& session, bool ended) {
  return print_answer(need(read_rows(*session.api, "/v1/nodes", {{"all", ended ? "true" : ""}}, "nodes")),
                      [&](const Json& page) { return nodes_text(page, session.now); });
}

}  // namespace

void add_stats(CLI::App& app) {
  static constexpr Field kMaxOverdue{"max_overdue", Is::duration, "DURATION",
                                     "Fail if a task is overdue by more than this (default: 1m)"};
  CLI::App& c = add_command(
      app, "stats", "Shows task counts, shard owners and problems: a health check",
      "Examples:\n"
      "  rung stats\n"
      "  rung stats --json --max-overdue 5m    a health check: exit code 1 on problems\n"
      "Problems: a shard without a live owner, tasks overdue by more than --max-overdue.",
      [](const CLI::App& command) {
        const Ms most =
            levels::parse_duration(value_of(command, "--max-overdue")).value_or(Ms{std::chrono::minutes{1}});
        return open_and_draw(command, [&](Session& session) { return show(session, most); });
      });
  add_fields(c, {&kMaxOverdue, 1});
  add_watch(c);

  CLI::App& nodes = add_command(
      app, "nodes", "Shows which node owns which shards, and their overdue tasks",
      "Examples:\n"
      "  rung nodes\n"
      "  rung nodes --json | jq '.unowned.shards'   shards without an owner\n"
      "A node is live while it renews its lease, dead once the lease has expired, and left after a clean\n"
      "shutdown. OVERDUE counts scheduled tasks that are due. For a health check use rung stats.",
      [](const CLI::App& command) {
        const bool ended = is_on(command, "--include-ended");
        return open_and_draw(command, [&](Session& session) { return show_nodes(session, ended); });
      });
  add_flag(nodes, "--include-ended,--all", "Include nodes that ended over a day ago");
  add_watch(nodes);
}

}  // namespace rung::cli
