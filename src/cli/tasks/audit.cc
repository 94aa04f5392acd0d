// rung audit: changes by hand, of one task or of all.
#include "src/api/tasks/audit.h"

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct AuditOptions {
  TaskOptions task;
  AuditFilter filter;
  std::string since, until, cursor;
};

// "state scheduled -> cancelled; next_due_at ... -> null": the values that differ.
std::string change_line(const AuditRow& row) {
  const Json before = Json::parse(row.before, nullptr, false), after = Json::parse(row.after, nullptr, false);
  if (!before.is_object() || !after.is_object()) return row.before + " -> " + row.after;
  const auto word = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : dump(value, false);
  };
  std::string out;
  for (const auto& [name, value] : after.items()) {
    const Json was = before.contains(name) ? before[name] : Json();
    if (was == value) continue;
    out += (out.empty() ? "" : "; ") + name + " " + (before.contains(name) ? word(was) + " -> " : "") +
           word(value);
  }
  return out;
}

std::string bulk_text(const AuditRow& row) { return row.bulk == 0 ? "-" : std::to_string(row.bulk); }
std::string text_or_dash(const std::string& text) { return text.empty() ? "-" : text; }

int audit_task(const TaskOptions& options) {
  Session session;
  TaskRow row;
  if (const int code = open_task(options, session, row); code != kSuccess) return code;
  auto rows = session.service.tasks->audit(row.task.id);
  if (!rows) return report_error(rows.error());
  if (options.common.json) return print_json(api::audit_page(*rows, api::whole_list()));
  if (rows->empty()) {
    print("no manual changes\n");
    return kSuccess;
  }
  using enum Table::Align;
  Table table({{"AT (UTC)", left},
               {"WHO", left},
               {"WHAT", left},
               {"BULK", right},
               {"REASON", left},
               {"CHANGED", left}});
  for (const AuditRow& each : *rows)
    table.row({format_utc(each.at), each.who, each.what, bulk_text(each), text_or_dash(each.reason),
               change_line(each)});
  print(table.str(Terminal::of_stdout(), false));
  return kSuccess;
}

// As many as asked for, in as many calls as that takes: each reads a bounded number of rows.
Result<AuditPage> read_log(Session& session, AuditFilter filter) {
  AuditPage all;
  const auto most = static_cast<std::size_t>(filter.limit);
  do {
    filter.limit = static_cast<int>(std::min(most - all.rows.size(), std::size_t{api::kMostOnPage}));
    auto page = session.service.tasks->audit_log(filter);
    if (!page) return page;
    std::ranges::move(page->rows, std::back_inserter(all.rows));
    all.next = filter.after = page->next;
  } while (all.next && all.rows.size() < most);
  return all;
}

std::string log_text(const AuditPage& page) {
  using enum Table::Align;
  Table table({{"AT (UTC)", left},
               {"WHO", left},
               {"WHAT", left},
               {"QUEUE", left},
               {"RETRY-ID", left},
               {"BULK", right},
               {"REASON", left},
               {"CHANGED", left}});
  for (const auto& [change, queue] : page.rows)
    table.row({format_utc(change.at), change.who, change.what, text_or_dash(queue),
               change.task.value == 0 ? "-" : change.task.str(), bulk_text(change),
               text_or_dash(change.reason), change_line(change)});
  std::string out = page.rows.empty() ? "no manual changes\n" : table.str(Terminal::of_stdout(), false);
  if (page.next)
    out += "\nthere may be more: add --cursor " + api::cursor_of(*page.next) + " for the next page\n";
  return out;
}

int audit_all(const AuditOptions& o) {
  Session session;
  if (const int code = open_service(o.task.common, session, "", ConfigFor::reading); code != kSuccess)
    return code;
  AuditFilter filter = o.filter;
  for (const auto& [flag, text, to] :
       {std::tuple("--since", &o.since, &filter.since), std::tuple("--until", &o.until, &filter.until)}) {
    if (const int code = read_time(flag, *text, session.now, Direction::past, *to); code != kSuccess)
      return code;
  }
  if (!o.cursor.empty()) {
    filter.after = api::audit_place_of(o.cursor);
    if (!filter.after)
      return report_error(kUserError, "--cursor: '" + o.cursor + "' is not the `next_cursor` of a page");
  }
  const auto page = read_log(session, filter);
  if (!page) return report_error(page.error());
  print(o.task.common.json ? dump(api::to_json(*page)) + "\n" : log_text(*page));
  return kSuccess;
}

}  // namespace

void add_audit(CLI::App& app, int* exit) {
  auto o = std::make_shared<AuditOptions>();
  CLI::App& c = add_service_command(
      app, "audit", "Lists manual changes of a task, or of all, newest first: when, by whom, and what",
      "Examples:\n"
      "  rung audit 249107395289088\n"
      "  rung audit order-17                   by message-id: the newest task\n"
      "  rung audit --since 24h                of all tasks and queues\n"
      "  rung audit --queue orders --action redrive --who alice\n"
      "  rung audit --bulk 7                   what it did to each task\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      o->task.common);
  CLI::Option* id =
      c.add_option("ID", o->task.id, "A retry-id or a message-id; without one all changes are listed");
  const auto list_option = [&](const char* flag, auto& value, const char* help, const char* type) {
    return c.add_option(flag, value, help)->type_name(type)->excludes(id);
  };
  list_option("--queue", o->filter.queue,
              "Changes of tasks that are in this queue, its pauses, and bulks that name it or no queue",
              "QUEUE");
  list_option("--bulk", o->filter.bulk, "Each task that this bulk has changed; without it a bulk is one row",
              "ID");
  list_option("--action", o->filter.what, "cancel, redrive, pause ...", "WORD")
      ->check(CLI::IsMember(std::vector<std::string>(api::kAuditActions.begin(), api::kAuditActions.end())));
  list_option("--who", o->filter.who, "By whom: how the name begins", "TEXT");
  list_option("--since", o->since, "At this time or later", "TIME");
  list_option("--until", o->until, "Before this time", "TIME");
  list_option("--limit", o->filter.limit, "So many changes", "N")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  list_option("--cursor", o->cursor, "The next page: `next_cursor` of the previous one", "CURSOR");
  c.callback([o, exit] { *exit = o->task.id.empty() ? audit_all(*o) : audit_task(o->task); });
}

}  // namespace rung::cli
