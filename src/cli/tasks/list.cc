// rung list.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct ListOptions {
  Common common;
  FilterOptions filter;
  std::string cursor, sort = "newest", by;
  int limit = 50;
  bool all = false, count = false, watch = false;
};

constexpr int kPage = 500;  // rows per page with --all

void add_row(Table& table, const TaskRow& row, EpochMs now, const Filter& filter) {
  const Task& t = row.task;
  std::vector<Table::Cell> cells = {t.id.str()};
  if (filter.queue.empty()) cells.emplace_back(destination(t));
  cells.emplace_back(std::string(to_word(t.kind)));
  cells.emplace_back(std::string(to_word(t.state)) + (body_stored(t) ? "" : ", no body"), colour_of(t.state));
  cells.emplace_back(fmt::format("{}/{}", t.level, t.levels));
  cells.emplace_back(fmt::format("{}", t.attempt));
  cells.emplace_back(due_cell(t, now));
  cells.emplace_back(age(t.first_failed_at.ms > 0 ? t.first_failed_at : t.created_at, now));
  cells.emplace_back(fmt::format("{}", t.version));
  cells.emplace_back(t.message_id.empty() ? "-" : shorten(one_line(t.message_id), 36));
  cells.emplace_back(error_line("", t.last_error));
  table.row(std::move(cells));
}

Table make_table(const Filter& filter) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"RETRY-ID", left}};
  if (filter.queue.empty()) columns.push_back({"QUEUE", left, 8});
  for (Table::Column column :
       std::initializer_list<Table::Column>{{"KIND", left, 0, 4},
                                            {"STATE", left},
                                            {"LEVEL", right, 0, 2},
                                            {"RETRIES", right, 0, 3},
                                            {"DUE", left},
                                            {time_style() == TimeStyle::utc ? "SINCE" : "AGE", right, 0, 1},
                                            {"VER", right, 0, 5},
                                            {"MESSAGE-ID", left, 10},
                                            {"LAST ERROR", left}}) {
    columns.push_back(std::move(column));
  }
  return Table(std::move(columns));
}

// Prints all pages with --all, otherwise one. JSON is one document over all pages.
int print_pages(Session& session, Filter filter, const ListOptions& options) {
  const Terminal terminal = Terminal::of_stdout();
  const int page = options.all ? kPage : options.limit;
  filter.limit = options.all ? page : page + 1;  // one more than shown, to know whether there is a next page
  std::string next;
  bool first = true;
  if (options.common.json) print("{\"tasks\":[");
  do {
    auto rows = session.service.tasks->list(filter);
    if (!rows)
      return report_error(rows.error());  // leaves the JSON incomplete: a partial list must not parse
    const bool more = rows->size() >= static_cast<std::size_t>(filter.limit);
    if (!options.all && more) rows->pop_back();
    next = more && !rows->empty() ? api::cursor_of(rows->back().task, filter.order) : "";
    if (!next.empty()) api::read_cursor(next, filter);
    if (options.common.json) {
      for (const TaskRow& row : *rows) {
        print((first ? "\n" : ",\n") + dump(api::to_json(row), false));
        first = false;
      }
      continue;
    }
    Table table = make_table(filter);
    for (const TaskRow& row : *rows) add_row(table, row, session.now, filter);
    if (!table.empty()) print(table.str(terminal));
    if (table.empty() && first) {
      print("no tasks match\n");
      suggest_queue(session, filter.queue);
    }
    first = false;
  } while (options.all && !next.empty());
  if (options.common.json) {
    print("\n],\"next\":" + (next.empty() ? "null" : "\"" + next + "\"") + "}\n");
  } else if (!next.empty()) {
    print("\nmore tasks match: add --cursor " + next + " for the next page, or --all for all pages\n");
  }
  return kSuccess;
}

int print_count(Session& session, const Filter& filter, const std::optional<CountBy>& by, bool json) {
  const auto counted = session.service.tasks->count(filter, by);
  if (!counted) return report_error(counted.error());
  const TaskCounts& counts = counted->counts;
  const bool more = counts.total >= counted->most;
  if (json) return print_json(api::to_json(counts, by, counted->most));
  print(by ? counts_text(counts, *by) : std::to_string(counts.total) + (more ? " or more\n" : "\n"));
  if (counts.total == 0) suggest_queue(session, filter.queue);
  return kSuccess;
}

int show(Session& session, const ListOptions& options) {
  Filter filter;
  if (const int code = read_filter(options.filter, session.now, filter); code != kSuccess) return code;
  filter.order = order_from(options.sort).value_or(Filter::Order::newest);
  if (!options.cursor.empty() && !api::read_cursor(options.cursor, filter))
    return report_error(kUserError,
                        "--cursor: '" + options.cursor + "' is not the `next` of a page in this order");
  std::optional<CountBy> by;
  if (const int code = read_count_by(options.by, by); code != kSuccess) return code;
  if (options.count) return print_count(session, filter, by, options.common.json);
  return print_pages(session, filter, options);
}

int run(const ListOptions& options) {
  Session session;
  if (const int code = open_service(options.common, session, options.filter.filter.queue, ConfigFor::reading);
      code != kSuccess)
    return code;
  if (options.watch) return watch(session, [&] { return show(session, options); });
  return show(session, options);
}

}  // namespace

void add_list(CLI::App& app, int* exit) {
  auto o = std::make_shared<ListOptions>();
  CLI::App& c = add_service_command(
      app, "list", "Lists tasks, newest first",
      "Examples:\n"
      "  rung list --state parked --queue orders\n"
      "  rung list --due-before 10m            tasks due in the next ten minutes\n"
      "  rung list --error timeout --created-after 1h\n"
      "  rung list --state parked,scheduled --sort oldest\n"
      "  rung list --correlation-id 4711       also --header tenant=acme, if index_headers lists tenant\n"
      "  rung list --error '/HTTP (429|503)/' --first-failed-after 2h\n"
      "  rung list --state parked --count --by error_type\n"
      "  rung list --sort due --watch          refreshed every 2 s\n"
      "  rung list --kind delay --tag order.close\n"
      "  rung list --all --json | jq -r '.tasks[].retry_id'\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      o->common);
  add_utc(c);
  add_filter(c, o->filter);
  c.add_option("--limit", o->limit, "Rows per page")->check(CLI::Range(1, 10000))->capture_default_str();
  c.add_option("--cursor", o->cursor, "The next page: `next` of the previous one")->type_name("CURSOR");
  CLI::Option* all = c.add_flag("--all", o->all, "All pages")->excludes("--limit");
  c.add_option("--sort", o->sort, "newest or oldest: by the time received; due: the next due first")
      ->check(CLI::IsMember({"newest", "oldest", "due"}))
      ->capture_default_str();
  CLI::Option* count = c.add_flag("--count", o->count, "Print only the number of tasks")->excludes(all);
  add_count_by(c, o->by)->needs(count);
  add_watch(c, o->watch)->excludes(all)->excludes("--json")->excludes("--count");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
