// rung history, rung audit: the attempts and the manual changes of one task.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "src/api/views.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/one_task.h"
#include "src/cli/task_text.h"
#include "src/cli/text.h"

namespace rung::cli {
namespace {

std::string history_text(const TaskRow& row, const std::vector<AttemptRow>& attempts,
                         const std::string& first, const Session& session) {
  using enum Table::Align;
  const Terminal terminal = Terminal::of_stdout();
  const Task& t = row.task;
  std::string out = paint("retry " + t.id.str(), Colour::bold, terminal) + "  " +
                    joined({t.queue.empty() ? named("to", destination(t)) : named("queue", t.queue),
                            named("message-id", t.message_id), named("tag", t.tag), named("ladder", t.ladder),
                            fmt::format("{} bytes", t.body_bytes)}) +
                    "\n\n";
  const auto has_rule = [](const AttemptRow& each) { return !each.attempt.rule.empty(); };
  const bool rules = std::ranges::any_of(attempts, has_rule) || (attempts.empty() && !t.rule.empty());
  std::vector<Table::Column> columns = {
      {"RETRY", right},         {"LEVEL", right, 0, 2}, {"DUE (UTC)", left, 0, 5}, {"PUBLISHED (UTC)", left},
      {"LATE", right, 0, 1},    {"OUTCOME", left},      {"AFTER", right, 0, 3},    {"NODE", left, 8, 4},
      {"EXECUTOR", left, 8, 6}, {"ERROR", left}};
  if (rules) columns.insert(columns.end() - 1, {"RULE", left, 8, 7});
  Table table(std::move(columns));
  const auto add = [&](std::vector<Table::Cell> cells, const std::string& rule) {
    if (rules) cells.insert(cells.end() - 1, rule.empty() ? "-" : rule);
    table.row(std::move(cells));
  };
  if (t.kind == Kind::delay) {
    add({"received", "-", "-", format_utc(t.created_at), "-", "delayed", "-", "-", "-", first}, "");
  } else {
    add({"first",
         "-",
         "-",
         format_utc(t.first_failed_at),
         "-",
         {"failed", Colour::red},
         "-",
         "-",
         "-",
         first},
        attempts.empty() ? t.rule : "");
  }
  for (const AttemptRow& each : attempts) {
    const Attempt& a = each.attempt;
    const bool answered = a.published_at && a.outcome_at;
    add({std::to_string(a.attempt),
         std::to_string(a.level),
         format_utc(a.due_at),
         a.published_at ? format_utc(*a.published_at) : "-",
         a.published_at ? humanise(*a.published_at - a.due_at) : "-",
         {std::string(to_word(a.outcome)), colour_of(a.outcome)},
         answered ? humanise(*a.outcome_at - *a.published_at) : "-",
         each.node.empty() ? "-" : each.node,
         a.executor.empty() ? "-" : a.executor,
         a.error},
        a.rule);
  }
  out += table.str(terminal);
  return out + "\n" +
         paint(one_line(what_next(row, *session.config.rules, session.now)), colour_of(t.state), terminal) +
         "\n";
}

int history(const TaskOptions& options) {
  Session session;
  TaskRow row;
  if (const int code = open_task(options, session, row); code != kSuccess) return code;
  auto attempts = session.store->history(row.task.id);
  if (!attempts) return report_error(attempts.error());
  auto origin = session.store->origin(row.task.id);
  if (!origin && origin.error().kind != Error::Kind::not_found) return report_error(origin.error());
  std::string first = origin && row.task.kind == Kind::retry ? first_error(*origin) : "";
  // Without attempts, the task still has the error it arrived with.
  if (first.empty() && attempts->empty()) first = row.task.last_error;
  if (!options.common.json) {
    print(history_text(row, *attempts, first, session));
    return kSuccess;
  }
  Json json = {{"task", api::to_json(row)},
               {"first_error", first.empty() ? Json() : Json(first)},
               {"attempts", Json::array()},
               {"next", what_next(row, *session.config.rules, session.now)}};
  for (const AttemptRow& each : *attempts) json["attempts"].push_back(api::to_json_with_task(each));
  print(dump(json) + "\n");
  return kSuccess;
}

// "state scheduled -> cancelled; next_at ... -> null": the values that differ.
std::string change_line(const AuditRow& row) {
  const Json before = Json::parse(row.before, nullptr, false), after = Json::parse(row.after, nullptr, false);
  if (!before.is_object() || !after.is_object()) return row.before + " -> " + row.after;
  const auto word = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : dump(value, false);
  };
  std::string out;
  for (const auto& [name, value] : after.items()) {
    const Json was = before.contains(name) ? before[name] : Json();
    if (was != value) out += (out.empty() ? "" : "; ") + name + " " + word(was) + " -> " + word(value);
  }
  return out;
}

int audit(const TaskOptions& options) {
  Session session;
  TaskRow row;
  if (const int code = open_task(options, session, row); code != kSuccess) return code;
  auto rows = session.store->audit(row.task.id);
  if (!rows) return report_error(rows.error());
  if (options.common.json) {
    Json json = {{"retry_id", row.task.id.str()}, {"version", row.task.version}, {"changes", Json::array()}};
    for (const AuditRow& each : *rows) json["changes"].push_back(api::to_json(each));
    print(dump(json) + "\n");
    return kSuccess;
  }
  if (rows->empty()) {
    print("no manual changes\n");
    return kSuccess;
  }
  using enum Table::Align;
  Table table({{"AT (UTC)", left}, {"WHO", left}, {"WHAT", left}, {"CHANGED", left}});
  for (const AuditRow& each : *rows) table.row({format_utc(each.at), each.who, each.what, change_line(each)});
  print(table.str(Terminal::of_stdout(), false));
  return kSuccess;
}

}  // namespace

void add_audit(CLI::App& app, int* exit) {
  auto o = std::make_shared<TaskOptions>();
  CLI::App& c = add_command(app, "audit", "Lists manual changes of a task: when, by whom, and what",
                            "Examples:\n"
                            "  rung audit 249107395289088\n"
                            "  rung audit order-17                   by message-id: the newest task",
                            o->common);
  c.add_option("ID", o->id, "A retry-id or a message-id")->required();
  c.callback([o, exit] { *exit = audit(*o); });
}

void add_history(CLI::App& app, int* exit) {
  auto o = std::make_shared<TaskOptions>();
  CLI::App& c = add_command(
      app, "history", "Shows the history of a task: every attempt, and what happens next",
      "Examples:\n"
      "  rung history 249107395289088\n"
      "  rung history order-17                 by message-id: the newest task\n"
      "LATE: delay between the due time and the publish. AFTER: time until the consumer's result.",
      o->common);
  c.add_option("ID", o->id, "A retry-id or a message-id")->required();
  c.callback([o, exit] { *exit = history(*o); });
}

}  // namespace rung::cli
