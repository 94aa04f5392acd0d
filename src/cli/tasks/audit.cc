// rung audit: changes by hand, of one task or of all.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

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
      {"WHAT", left, 0, 0, text_cell("what")},
      {"QUEUE", left, 0, 0, text_cell("queue")},
      {"RETRY-ID", left, 0, 0, text_cell("retry_id")},
      {"BULK", right, 0, 0, text_cell("bulk_id")},
      {"REASON", left, 0, 0, text_cell("reason")},
      {"CHANGED", left, 0, 0, change_line}};
  if (!of_all) columns.erase(columns.begin() + 3, columns.begin() + 5);
  return Table(std::move(columns), changes).str(Terminal::of_stdout(), false);
}

int audit_task(const std::string& id) {
  Session session;
  const std::string path = path_of(find_task(session, id)) + "/audit";
  return print_answer(need(read_rows(*session.api, path, {}, "audit")),
                      [](const Json& page) { return changes_text(part_of(page, "audit"), false); });
}

int audit_all(const CLI::App& c, std::span<const Field> fields) {
  Session session("", ConfigFor::reading);
  return print_answer(read_page_of(c, session, "/v1/audit", read_params(c, fields, session.now), "audit"),
                      [](const Json& all) {
                        return changes_text(part_of(all, "audit"), true) +
                               more_text("there may be more", all);
                      });
}

}  // namespace

void add_audit(CLI::App& app) {
  const std::vector<Field> fields = params_of("listAudit");
  CLI::App& c = add_command(
      app, "audit", "Lists manual changes of a task, or of all, newest first: when, by whom, and what",
      "Examples:\n"
      "  rung audit 249107395289088\n"
      "  rung audit order-17                   by message-id: the newest task\n"
      "  rung audit --since 24h                of all tasks and queues\n"
      "  rung audit --queue orders --action redrive --who alice\n"
      "  rung audit --bulk 7                   what it did to each task\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      [fields](const CLI::App& command) {
        const std::string id = value_of(command, "ID");
        return id.empty() ? audit_all(command, fields) : audit_task(id);
      });
  CLI::Option& one = add_text(c, "ID", "A retry-id or a message-id; without one all changes are listed");
  add_fields(c, fields);
  add_page(c);
  for (CLI::Option* option : c.get_options([](const CLI::Option* o) { return !o->get_positional(); })) {
    if (option->get_name() != "--help") one.excludes(option);
  }
}

}  // namespace rung::cli
