// rung history: the attempts of one task, and what was changed by hand.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

// By how many attempts each change by hand came after: those published (or, before that, due) before it.
int attempts_before(const AuditRow& change, const std::vector<AttemptRow>& attempts) {
  int before = 0;
  for (const AttemptRow& row : attempts) {
    const Attempt& a = row.attempt;
    if (a.published_at.value_or(a.due_at) < change.at) before = std::max(before, a.attempt);
  }
  return before;
}

// "2026-11-21 17:05:00.000  redrive by ann@desk (cli), bulk 7: the bank is back"
std::string change_text(const AuditRow& change) {
  return fmt::format("{}  {} by {}{}{}", format_utc(change.at), change.what, change.who,
                     change.bulk == 0 ? "" : fmt::format(", bulk {}", change.bulk),
                     change.reason.empty() ? "" : ": " + change.reason);
}

std::string history_text(const TaskRow& row, const std::vector<AttemptRow>& attempts,
                         const std::vector<AuditRow>& changes, const std::string& first, Session& session) {
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
  table.wrap_last();
  auto change = changes.begin();
  const auto add_changes = [&](int attempt) {
    for (; change != changes.end() && attempts_before(*change, attempts) < attempt; ++change)
      table.note(change_text(*change), Colour::bold);
  };
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
         error_line("", first)},
        attempts.empty() ? t.rule : "");
  }
  for (const AttemptRow& each : attempts) {
    const Attempt& a = each.attempt;
    add_changes(a.attempt);
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
         error_line("", a.error)},
        a.rule);
  }
  add_changes(std::numeric_limits<int>::max());
  out += table.str(terminal, terminal.width > 0);
  return out + "\n" + paint(one_line(next_of(session, row)), colour_of(t.state), terminal) + "\n";
}

// A user who may read only some of the views gets the rest.
bool may_be_left_out(const Error& error) {
  if (error.kind != Error::Kind::refused) return false;
  report_error(kUserError, "not shown: " + error.message);
  return true;
}

int history(const TaskOptions& options) {
  Session session;
  TaskRow row;
  if (const int code = open_task(options, session, row); code != kSuccess) return code;
  auto attempts = session.service.tasks->history(row.task.id);
  if (!attempts) return report_error(attempts.error());
  if (options.common.json) return print_json(api::history_page(*attempts, api::whole_list()));
  auto origin = session.service.tasks->origin(row.task.id);
  if (!origin && origin.error().kind != Error::Kind::not_found && !may_be_left_out(origin.error()))
    return report_error(origin.error());
  std::string first = origin && row.task.kind == Kind::retry ? first_error(*origin) : "";
  // Without attempts, the task still has the error it arrived with.
  if (first.empty() && attempts->empty()) first = row.task.last_error;
  auto changes = session.service.tasks->audit(row.task.id);
  if (!changes && !may_be_left_out(changes.error())) return report_error(changes.error());
  if (!changes) changes.emplace();
  print(history_text(row, *attempts, *changes, first, session));
  return kSuccess;
}

}  // namespace

void add_history(CLI::App& app, int* exit) {
  auto o = std::make_shared<TaskOptions>();
  CLI::App& c = add_service_command(
      app, "history",
      "Shows the history of a task: every attempt, every change by hand, and what happens next",
      "Examples:\n"
      "  rung history 249107395289088\n"
      "  rung history order-17                 by message-id: the newest task\n"
      "LATE: delay between the due time and the publish. AFTER: time until the consumer's result.",
      o->common);
  c.add_option("ID", o->id, "A retry-id or a message-id")->required();
  add_utc(c);
  c.callback([o, exit] { *exit = history(*o); });
}

}  // namespace rung::cli
