// rung history: the attempts of one task, and what was changed by hand.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

std::string utc_of(const Json& row, const char* name) {
  const auto time = time_of(row, name);
  return time ? format_utc(*time) : "-";
}

// By how many attempts each change by hand came after: those published (or, before that, due) before it.
std::int64_t attempts_before(const Json& change, const Json& attempts) {
  std::int64_t before = 0;
  for (const Json& a : attempts) {
    const bool published = part_of(a, "published_at").is_string();
    if (time_of(a, published ? "published_at" : "due_at") < time_of(change, "at"))
      before = std::max(before, number_of(a, "attempt"));
  }
  return before;
}

// "2026-11-21 17:05:00.000  redrive by ann@desk (cli), bulk 7: the bank is back"
std::string change_text(const Json& change) {
  const std::string bulk = text_of(change, "bulk_id"), reason = text_of(change, "reason");
  return fmt::format("{}  {} by {}{}{}", utc_of(change, "at"), text_of(change, "what"),
                     text_of(change, "who"), bulk.empty() ? "" : ", bulk " + bulk,
                     reason.empty() ? "" : ": " + reason);
}

Table::Cell late_cell(const Json& attempt) {
  const Json& late = part_of(attempt, "late_ms");
  return late.is_number() ? humanise(Ms{number_of(attempt, "late_ms")}) : "-";
}
Table::Cell outcome_cell(const Json& attempt) {
  const std::string word = text_of(attempt, "outcome");
  return {word, colour_of(outcome_from(word).value_or(Outcome::pending))};
}
Table::Cell after_cell(const Json& attempt) {
  const auto published = time_of(attempt, "published_at"), end = time_of(attempt, "outcome_at");
  return published && end ? humanise(*end - *published) : "-";
}

// The failure, or the submission, that it began with.
std::vector<Table::Cell> first_row(const Json& task, const std::string& error) {
  if (text_of(task, "kind") == to_word(Kind::delay))
    return {"received", "-", "-", utc_of(task, "created_at"), "-", "delayed", "-", "-", "-", error};
  return {"first", "-",
          "-",     utc_of(task, "first_failed_at"),
          "-",     {"failed", Colour::red},
          "-",     "-",
          "-",     error_line("", error)};
}

std::string history_text(Session& session, const Json& task, const Json& changes, const std::string& first) {
  using enum Table::Align;
  const Terminal terminal = Terminal::of_stdout();
  const Json& attempts = part_of(task, "history");
  const std::string queue = text_of(task, "queue");
  std::string out = paint("retry " + one_line(text_of(task, "retry_id")), Colour::bold, terminal) + "  " +
                    joined({queue.empty() ? named("to", destination(task)) : named("queue", queue),
                            named("message-id", text_of(task, "message_id")),
                            named("tag", text_of(task, "tag")), named("ladder", text_of(task, "ladder")),
                            fmt::format("{} bytes", number_of(task, "body_bytes"))}) +
                    "\n\n";
  const auto has_rule = [](const Json& row) { return !text_of(row, "rule").empty(); };
  const bool rules =
      std::any_of(attempts.begin(), attempts.end(), has_rule) || (attempts.empty() && has_rule(task));
  std::vector<Table::Column> columns = {
      {"RETRY", right, 0, 0, number_cell("attempt")},
      {"LEVEL", right, 0, 2, number_cell("level")},
      {"DUE (UTC)", left, 0, 5, [](const Json& a) { return utc_of(a, "due_at"); }},
      {"PUBLISHED (UTC)", left, 0, 0, [](const Json& a) { return utc_of(a, "published_at"); }},
      {"LATE", right, 0, 1, late_cell},
      {"OUTCOME", left, 0, 0, outcome_cell},
      {"AFTER", right, 0, 3, after_cell},
      {"NODE", left, 8, 4, text_cell("node")},
      {"EXECUTOR", left, 8, 6, text_cell("executor")},
      {"ERROR", left, 0, 0, [](const Json& a) { return error_line("", text_of(a, "error")); }}};
  std::vector<Table::Cell> began = first_row(task, first);
  if (rules) {
    columns.insert(columns.end() - 1, {"RULE", left, 8, 7, text_cell("rule")});
    began.insert(began.end() - 1, attempts.empty() ? text_cell("rule")(task) : "-");
  }
  Table table(std::move(columns));
  table.wrap_last();
  table.row(std::move(began));
  auto change = changes.begin();
  const auto add_changes = [&](std::int64_t attempt) {
    for (; change != changes.end() && attempts_before(*change, attempts) < attempt; ++change)
      table.note(change_text(*change), Colour::bold);
  };
  for (const Json& attempt : attempts) {
    add_changes(number_of(attempt, "attempt"));
    table.add(attempt);
  }
  add_changes(std::numeric_limits<std::int64_t>::max());
  out += table.str(terminal, terminal.width > 0);
  return out + "\n" + paint(one_line(next_of(session, task)), colour_of(state_of(task)), terminal) + "\n";
}

int history(const std::string& id) {
  Session session;
  const Json task = find_task(session, id);
  const Json& attempts = part_of(task, "history");
  if (given().json) return print_json({{"attempts", attempts}, {"next", nullptr}});
  const auto origin = session.api->get(path_of(task) + "/origin");
  if (!origin && origin.error().kind != Error::Kind::not_found) throw Failed(origin.error());
  const bool failed = text_of(task, "kind") == to_word(Kind::retry);
  std::string first = origin && failed ? first_error(dump(part_of(*origin, "origin"), false)) : "";
  // Without attempts, the task still has the error it arrived with.
  if (first.empty() && attempts.empty()) first = text_of(task, "last_error");
  const Json changes = need(read_rows(*session.api, path_of(task) + "/audit", {}, "audit"));
  print(history_text(session, task, part_of(changes, "audit"), first));
  return kSuccess;
}

}  // namespace

void add_history(CLI::App& app, int* exit) {
  auto o = std::make_shared<std::string>();
  CLI::App& c = add_command(
      app, "history",
      "Shows the history of a task: every attempt, every change by hand, and what happens next",
      "Examples:\n"
      "  rung history 249107395289088\n"
      "  rung history order-17                 by message-id: the newest task\n"
      "LATE: delay between the due time and the publish. AFTER: time until the consumer's result.");
  c.add_option("ID", *o, "A retry-id or a message-id")->required();
  c.callback([o, exit] { *exit = history(*o); });
}

}  // namespace rung::cli
