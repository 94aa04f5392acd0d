// rung list: which tasks there are, newest first.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/story.h"
#include "src/cli/text.h"
#include "src/cli/when.h"

namespace rung::cli {
namespace {

struct Options {
  Common common;
  std::string state, due_before, due_after, created_since, created_before, below;
  Filter filter;
  bool all = false;
};

constexpr int kPage = 500;  // rows a page, where --all walks them

int read_times(const Options& options, EpochMs now, Filter& filter) {
  const struct {
    const char* flag;
    const std::string& text;
    Direction direction;
    std::optional<EpochMs>& to;
  } times[] = {
      {"--due-before", options.due_before, Direction::future, filter.due_before},
      {"--due-after", options.due_after, Direction::future, filter.due_after},
      {"--created-since", options.created_since, Direction::past, filter.created_after},
      {"--created-before", options.created_before, Direction::past, filter.created_before},
  };
  for (const auto& time : times) {
    if (time.text.empty()) continue;
    const auto when = parse_when(time.text, now, time.direction);
    if (!when) return complain(kMistake, std::string(time.flag) + ": " + when.error());
    time.to = *when;
  }
  return kDone;
}

int read_words(const Options& options, Filter& filter) {
  if (!options.state.empty()) filter.state = state_from(options.state);  // the parser has checked the word
  if (options.below.empty()) return kDone;
  filter.below = TaskId::parse(options.below);
  if (!filter.below) return complain(kMistake, "--below: '" + options.below + "' is not a retry-id (digits)");
  return kDone;
}

void add_row(Table& table, const TaskRow& row, EpochMs now, const Filter& filter) {
  const Task& t = row.task;
  std::vector<Table::Cell> cells = {t.id.str()};
  if (filter.queue.empty()) cells.emplace_back(t.queue.empty() ? "-" : t.queue);
  cells.emplace_back(std::string(to_word(t.state)), colour_of(t.state));
  cells.emplace_back(fmt::format("{}/{}", t.level, t.levels));
  cells.emplace_back(fmt::format("{}", t.attempt));
  cells.emplace_back(due_cell(t, now));
  cells.emplace_back(humanise(now - t.first_failed_at));
  cells.emplace_back(t.message_id.empty() ? "-" : shorten(one_line(t.message_id), 36));
  cells.emplace_back(t.last_error);
  table.row(std::move(cells));
}

Table make_table(const Filter& filter) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"RETRY-ID", left}};
  if (filter.queue.empty()) columns.push_back({"QUEUE", left});
  for (Table::Column column : std::initializer_list<Table::Column>{{"STATE", left},
                                                                   {"LEVEL", right},
                                                                   {"RETRIES", right},
                                                                   {"DUE", left},
                                                                   {"AGE", right},
                                                                   {"MESSAGE-ID", left},
                                                                   {"LAST ERROR", left}}) {
    columns.push_back(std::move(column));
  }
  return Table(std::move(columns));
}

// Prints pages until there are no more, or one where --all is not given. In JSON: one document over all
// pages.
int print_pages(Session& session, Filter filter, const Options& options) {
  const Terminal terminal = Terminal::of_stdout();
  const int page = options.all ? kPage : filter.limit;
  filter.limit = options.all ? page : page + 1;  // one more than shown: is there a next page?
  std::string next;
  bool first = true;
  if (options.common.json) print("{\"tasks\":[");
  do {
    auto rows = session.store->list(filter);
    if (!rows) return complain(rows.error());  // JSON that was begun stays open: half a list must not parse
    const bool more = rows->size() >= static_cast<std::size_t>(filter.limit);
    if (!options.all && more) rows->pop_back();
    next = more && !rows->empty() ? rows->back().task.id.str() : "";
    if (!rows->empty()) filter.below = rows->back().task.id;
    if (options.common.json) {
      for (const TaskRow& row : *rows) {
        print((first ? "\n" : ",\n") + dump(to_json(row), false));
        first = false;
      }
      continue;
    }
    Table table = make_table(filter);
    for (const TaskRow& row : *rows) add_row(table, row, session.now, filter);
    if (!table.empty()) print(table.str(terminal));
    if (table.empty() && first) print("no tasks match\n");
    first = false;
  } while (options.all && !next.empty());
  if (options.common.json) {
    print("\n],\"next\":" + (next.empty() ? "null" : "\"" + next + "\"") + "}\n");
  } else if (!next.empty()) {
    print("\nthere are more: the next page by adding --below " + next + ", all of them by --all\n");
  }
  return kDone;
}

int run(const Options& options) {
  Session session;
  if (const int code = open_session(options.common, session); code != kDone) return code;
  Filter filter = options.filter;
  if (const int code = read_words(options, filter); code != kDone) return code;
  if (const int code = read_times(options, session.now, filter); code != kDone) return code;
  return print_pages(session, filter, options);
}

}  // namespace

void add_list(CLI::App& app, int* exit) {
  auto o = std::make_shared<Options>();
  CLI::App& c =
      add_command(app, "list", "The tasks, newest first",
                  "Examples:\n"
                  "  rung list --state parked --queue orders\n"
                  "  rung list --due-before 10m            what will be sent in the next ten minutes\n"
                  "  rung list --error timeout --created-since 1h\n"
                  "  rung list --all --json | jq -r '.tasks[].retry_id'\n"
                  "A time is 2026-11-21T17:05:00Z (UTC where no offset stands) or a duration from now.",
                  o->common);
  c.add_option("--queue", o->filter.queue, "The queue it goes back to, exactly")->type_name("NAME");
  c.add_option("--state", o->state, "Where in its life it is")
      ->check(CLI::IsMember(
          {"scheduled", "publishing", "awaiting", "succeeded", "parked", "cancelled", "discarded"}));
  c.add_option("--tag", o->filter.tag, "The message's property `type`, exactly")->type_name("TAG");
  c.add_option("--message-id", o->filter.message_id, "The message's own id, exactly")->type_name("ID");
  c.add_option("--ladder", o->filter.ladder, "The ladder it climbs, exactly")->type_name("NAME");
  c.add_option("--error", o->filter.error_contains, "A part of the last error")->type_name("TEXT");
  c.add_option("--due-before", o->due_before, "Due before; a duration counts from now on")->type_name("TIME");
  c.add_option("--due-after", o->due_after, "Due after; a duration counts from now on")->type_name("TIME");
  c.add_option("--created-since", o->created_since, "Taken in since; a duration counts back")
      ->type_name("TIME");
  c.add_option("--created-before", o->created_before, "Taken in before; a duration counts back")
      ->type_name("TIME");
  c.add_option("--limit", o->filter.limit, "Rows a page")->check(CLI::Range(1, 10000))->capture_default_str();
  c.add_option("--below", o->below, "The next page: ids below this one")->type_name("ID");
  c.add_flag("--all", o->all, "Every page")->excludes("--limit");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
