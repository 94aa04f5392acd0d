// rung list.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

constexpr std::size_t kPage = 500;  // rows per page with --all

Table make_table(const std::string& queue, EpochMs now) {
  using enum Table::Align;
  const bool utc = time_style() == TimeStyle::utc;
  const auto state = [](const Json& t) {
    const char* body = part_of(t, "body_stored") == false ? ", no body" : "";
    return text_of(t, "state") + body;
  };
  const auto level = [](const Json& t) {
    return fmt::format("{}/{}", number_of(t, "level"), number_of(t, "levels"));
  };
  const auto since = [now](const Json& t) {
    const auto failed = time_of(t, "first_failed_at");
    return age(failed ? *failed : time_of(t, "created_at").value_or(now), now);
  };
  const auto error = [](const Json& t) { return error_line("", text_of(t, "last_error")); };
  std::vector<Table::Column> columns = {
      {"RETRY-ID", left, 0, 0, text_cell("retry_id")},
      {"QUEUE", left, 8, 0, destination},
      {"KIND", left, 0, 4, text_cell("kind")},
      {"STATE", left, 0, 0, state},
      {"LEVEL", right, 0, 2, level},
      {"RETRIES", right, 0, 3, text_cell("attempt")},
      {"DUE", left, 0, 0, [now](const Json& t) { return due_cell(t, now); }},
      {utc ? "SINCE" : "AGE", right, 0, 1, since},
      {"VER", right, 0, 5, text_cell("version")},
      {"MESSAGE-ID", left, 10, 0, text_cell("message_id")},
      {"LAST ERROR", left, 0, 0, error}};
  if (!queue.empty()) columns.erase(columns.begin() + 1);
  return Table(std::move(columns));
}

// Prints all pages with --all, otherwise one. JSON is one document over all pages.
int print_pages(Session& session, const CLI::App& c, std::span<const Field> fields,
                const std::string& queue) {
  const Parameters parameters = read_params(c, fields, session.now);
  const bool all = is_on(c, "--all-pages");
  std::string next = value_of(c, "--cursor");
  bool first = true;
  if (given().json) print("{\"tasks\":[");
  do {
    // An error leaves the JSON incomplete: a partial list must not parse.
    const Json page = all ? need(read_page(*session.api, "/v1/tasks", parameters, "tasks", kPage, next))
                          : read_page_of(c, session, "/v1/tasks", parameters, "tasks");
    next = text_of(page, "next");
    Table table = make_table(queue, session.now);
    for (const Json& task : part_of(page, "tasks")) {
      if (!given().json) table.add(task);
      if (given().json) print((first ? "\n" : ",\n") + dump(task, false));
      first = false;
    }
    if (!table.empty()) print(table.str());
  } while (all && !next.empty());
  if (given().json) {
    print("\n],\"next\":" + dump(api::text_or_null(next)) + "}\n");
  } else if (first) {
    print("no tasks match\n");
    suggest_queue(session, queue);
  } else if (!next.empty()) {
    print("\nmore tasks match: add --cursor " + one_line(next) +
          " for the next page, or --all-pages for all of them\n");
  }
  return kSuccess;
}

int print_count(Session& session, const CLI::App& c, std::span<const Field> fields,
                const std::string& queue) {
  const std::string by = value_of(c, "--by");
  Parameters parameters = read_params(c, fields, session.now);
  parameters.emplace_back("count", "true");
  parameters.emplace_back("by", by);
  const Json counts = need(session.api->get(with_query("/v1/tasks", parameters)));
  if (given().json) return print_json(counts);
  const std::int64_t total = number_of(counts, "count");
  print(!by.empty() ? counts_text(counts)
                    : std::to_string(total) + (flag_of(counts, "or_more") ? " or more\n" : "\n"));
  if (total == 0) suggest_queue(session, queue);
  return kSuccess;
}

}  // namespace

void add_list(CLI::App& app) {
  const std::vector<Field> fields = params_of("listTasks", {"count", "by"});
  CLI::App& c = add_command(
      app, "list", "Lists tasks, newest first",
      "Examples:\n"
      "  rung list --state parked --queue orders\n"
      "  rung list --due-before 10m            tasks due in the next ten minutes\n"
      "  rung list --correlation-id 4711       also --header tenant=acme, if index_headers lists tenant\n"
      "  rung list --state parked --count --by error_type\n"
      "  rung list --sort due --watch          refreshed every 2 s\n"
      "  rung list --all-pages --json | jq -r '.tasks[].retry_id'\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      [fields](const CLI::App& command) {
        const auto print_tasks = is_on(command, "--count") ? print_count : print_pages;
        return open_and_draw(command, [&](Session& session) {
          return print_tasks(session, command, fields, value_of(command, "--queue"));
        });
      });
  add_fields(c, fields, "Which tasks");
  add_page(c);
  CLI::Option* all = add_flag(c, "--all-pages,--all", "All pages").excludes("--limit");
  CLI::Option* count = add_flag(c, "--count", "Print only the number of tasks").excludes(all);
  add_count_by(c)->needs(count);
  add_watch(c)->excludes(all)->excludes("--count");
}

}  // namespace rung::cli
