// rung audit: changes by hand, of one task or of all.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/tasks/views.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

struct AuditOptions {
  std::string id, queue, action, who, bulk, since, until, cursor;
  std::size_t limit = 50;
};

// "state scheduled -> cancelled; next_due_at ... -> null": the values that differ.
std::string change_line(const Json& row) {
  const Json &before = part_of(row, "before"), &after = part_of(row, "after");
  const auto word = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : dump(value, false);
  };
  if (!before.is_object() || !after.is_object())
    return text_of(row, "before") + " -> " + text_of(row, "after");
  std::string out;
  for (const auto& [name, value] : after.items()) {
    const Json was = before.contains(name) ? before[name] : Json();
    if (was == value) continue;
    out += (out.empty() ? "" : "; ") + name + " " + (before.contains(name) ? word(was) + " -> " : "") +
           word(value);
  }
  return out;
}

// `of_all`: not of one task.
std::string changes_text(const Json& changes, bool of_all) {
  using enum Table::Align;
  if (changes.empty()) return "no manual changes\n";
  std::vector<Table::Column> columns = {
      {"AT (UTC)", left, 0, 0,
       [](const Json& row) { return format_utc(time_of(row, "at").value_or(EpochMs{})); }},
      {"WHO", left, 0, 0, text_cell("who")},
      {"WHAT", left, 0, 0, text_cell("what")}};
  if (of_all) columns.push_back({"QUEUE", left, 0, 0, text_cell("queue")});
  if (of_all) columns.push_back({"RETRY-ID", left, 0, 0, text_cell("retry_id")});
  columns.push_back({"BULK", right, 0, 0, text_cell("bulk_id")});
  columns.push_back({"REASON", left, 0, 0, text_cell("reason")});
  columns.push_back({"CHANGED", left, 0, 0, change_line});
  Table table(std::move(columns), changes);
  return table.str(Terminal::of_stdout(), false);
}

int audit_task(const std::string& id) {
  Session session;
  Json task;
  if (const int code = open_task(id, session, task); code != kSuccess) return code;
  return print_answer(read_rows(*session.api, path_of(task) + "/audit", {}, "changes"),
                      [](const Json& page) { return changes_text(part_of(page, "changes"), false); });
}

int audit_all(const AuditOptions& o) {
  Session session;
  if (const int code = open_service(session, "", ConfigFor::reading); code != kSuccess) return code;
  std::optional<EpochMs> since, until;
  for (const auto& [flag, text, to] :
       {std::tuple("--since", &o.since, &since), std::tuple("--until", &o.until, &until)}) {
    if (const int code = read_time(flag, *text, session.now, Direction::past, *to); code != kSuccess)
      return code;
  }
  const Parameters parameters{{"queue", o.queue},
                              {"action", o.action},
                              {"who", o.who},
                              {"bulk", o.bulk},
                              {"since", since ? to_rfc3339(*since) : ""},
                              {"until", until ? to_rfc3339(*until) : ""}};
  const auto page = read_rows(*session.api, "/v1/audit", parameters, "audit", o.limit, o.cursor);
  return print_answer(page, [](const Json& all) {
    return changes_text(part_of(all, "audit"), true) + more_text("there may be more", all);
  });
}

}  // namespace

void add_audit(CLI::App& app, int* exit) {
  auto o = std::make_shared<AuditOptions>();
  CLI::App& c = add_command(
      app, "audit", "Lists manual changes of a task, or of all, newest first: when, by whom, and what",
      "Examples:\n"
      "  rung audit 249107395289088\n"
      "  rung audit order-17                   by message-id: the newest task\n"
      "  rung audit --since 24h                of all tasks and queues\n"
      "  rung audit --queue orders --action redrive --who alice\n"
      "  rung audit --bulk 7                   what it did to each task\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.");
  CLI::Option* id =
      c.add_option("ID", o->id, "A retry-id or a message-id; without one all changes are listed");
  const auto list_option = [&](const char* flag, auto& value, const char* help, const char* type) {
    return c.add_option(flag, value, help)->type_name(type)->excludes(id);
  };
  list_option("--queue", o->queue,
              "Changes of tasks that are in this queue, its pauses, and bulks that name it or no queue",
              "QUEUE");
  list_option("--bulk", o->bulk, "Each task that this bulk has changed; without it a bulk is one row", "ID");
  list_option("--action", o->action, "cancel, redrive, pause ...", "WORD")
      ->check(CLI::IsMember(std::vector<std::string>(api::kAuditActions.begin(), api::kAuditActions.end())));
  list_option("--who", o->who, "By whom: how the name begins", "TEXT");
  list_option("--since", o->since, "At this time or later", "TIME");
  list_option("--until", o->until, "Before this time", "TIME");
  list_option("--limit", o->limit, "So many changes", "N")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  list_option("--cursor", o->cursor, "The next page: `next_cursor` of the previous one", "CURSOR");
  c.callback([o, exit] { *exit = o->id.empty() ? audit_all(*o) : audit_task(o->id); });
}

}  // namespace rung::cli
