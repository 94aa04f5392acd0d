// What is read of tasks: rung show, history, audit, and list.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

// The headers that the message arrived with and that are not sent again; null: none.
Json read_origin(Session& session, const Json& task) {
  const auto origin = session.api->get(path_of(task) + "/origin");
  if (!origin && origin.error().kind != Error::Kind::not_found) throw Failed(origin.error());
  return origin ? part_of(*origin, "origin") : Json();
}

// Properties, headers and body_base64; null: deleted by retention, or denied. `denial`: why it may not be
// read.
Json read_message(Session& session, const Json& task, std::string& denial) {
  auto message = session.api->call("GET", path_of(task) + "/message", nullptr, true);
  // With a role that may not see messages. (In this process it is a right in the database that is missing.)
  const bool role =
      !message && message.error().kind == Error::Kind::refused && !session.config.api.url.empty();
  if (!message && !role) throw Failed(message.error());
  if (role) {
    denial = message.error().message;
  } else if (message->status == 403) {  // of a queue that the token may not see messages of
    denial = message->text("detail");
  } else if (message->good()) {
    return std::move(message->json);
  } else if (message->status != 404) {
    throw Failed(error_of(*message));
  }
  return {};
}

constexpr const char* kNotReadable =
    "properties, headers and body: they need a token with the role editor, for this queue";

// What the API says of it, and first what that means.
std::string show_text(const Json& task, const Session& session, bool trace) {
  Json facts = {{"retry_id", ""}, {"state", ""}, {"next", what_next(task, session.now)}};
  facts.update(task);
  if (const Json& gate = part_of(task, "held"); gate.is_object()) facts["held"] = held_text(gate);
  if (const Json& attempts = part_of(task, "history"); !attempts.empty() && state_of(task) == State::awaiting)
    facts["waits"] = part_of(attempts.back(), "error");
  const std::string last = text_of(task, "last_error");
  const std::string first = error_line(text_of(task, "error_type"), last);
  const std::size_t end = last.find('\n');
  const bool more = end != std::string::npos;
  facts["last_error"] = first + (!more   ? ""
                                 : trace ? last.substr(end)
                                         : "\n(and its trace: rung show --trace)");
  if (task.contains("denied")) facts["denied"] = kNotReadable;
  for (const char* elsewhere : {"history", "body", "body_base64"}) facts.erase(elsewhere);
  return facts_text(facts, session.now);
}

int show_task(const CLI::App& c) {
  const bool raw = is_on(c, "--raw"), with_body = is_on(c, "--body");
  Session session;
  Json task = find_task(session, value_of(c, "ID"));
  std::string denial;
  const Json message = read_message(session, task, denial);
  if ((raw || with_body) && !denial.empty())
    throw Failed(kUserError,
                 std::string("this token may not read bodies: ") + kNotReadable + " (" + denial + ")");
  const bool stored = part_of(task, "body_stored") != false && message.is_object();
  const std::string body =
      stored ? api::from_base64(text_of(message, "body_base64")).value_or("") : std::string();
  if (raw && message.is_null())
    throw Failed(kNotFound, "the body of " + text_of(task, "retry_id") + " has been deleted");
  if (raw && !stored) throw Failed(kNotFound, not_stored_text(text_of(task, "last_error")));
  if (raw) {
    print(body);
    return kSuccess;
  }
  if (!denial.empty()) task["denied"] = Json::array({"retry_bodies"});
  task["origin"] = read_origin(session, task);
  task["properties"] = part_of(message, "properties");
  task["headers"] = part_of(message, "headers");
  if (with_body && stored && is_utf8(body)) task["body"] = body;
  if (with_body && stored && !is_utf8(body)) task["body_base64"] = text_of(message, "body_base64");
  return print_answer(task, [&](const Json&) {
    return show_text(task, session, is_on(c, "--trace")) +
           (with_body && stored ? "\n" + lines(body, 0) + "\n" : "");
  });
}

// ------------------------------------------------------------------------------------------- rung history

// "2026-11-21 17:05:00.000  redrive by ann@desk (cli), bulk 7: the bank is back"
std::string change_text(const Json& change) {
  const std::string bulk = text_of(change, "bulk_id"), reason = text_of(change, "reason");
  return fmt::format("{}  {} by {}{}{}", utc_cell("at")(change), text_of(change, "what"),
                     text_of(change, "who"), bulk.empty() ? "" : ", bulk " + bulk,
                     reason.empty() ? "" : ": " + reason);
}

std::string late_cell(const Json& attempt) {
  const Json& late = part_of(attempt, "late_ms");
  return late.is_number() ? humanise(Ms{number_of(attempt, "late_ms")}) : "-";
}
std::string after_cell(const Json& attempt) {
  const auto published = time_of(attempt, "published_at"), end = time_of(attempt, "outcome_at");
  return published && end ? humanise(*end - *published) : "-";
}

// The error that the message arrived with. "" = unknown.
std::string first_error(const Json& origin) {
  const Json& deaths = part_of(origin, "x-death");
  const std::string error = error_line(text_of(origin, "retry-error-type"), text_of(origin, "retry-error"));
  if (!error.empty() || !deaths.is_array() || deaths.empty()) return error;
  const Json& death = deaths.front();
  return fmt::format("dead-lettered: {} (queue {})", text_of(death, "reason"), text_of(death, "queue"));
}

// The failure, or the submission, that it began with.
Json first_row(Session& session, const Json& task) {
  const bool delay = text_of(task, "kind") == to_word(Kind::delay);
  const std::string error = delay ? "" : first_error(read_origin(session, task));
  // Without attempts, the task still has the error it arrived with.
  const bool alone = part_of(task, "history").empty();
  return {{"attempt", delay ? "received" : "first"},
          {"published_at", part_of(task, delay ? "created_at" : "first_failed_at")},
          {"outcome", delay ? "delayed" : "failed"},
          {"rule", alone ? part_of(task, "rule") : Json()},
          {"error", alone && error.empty() ? text_of(task, "last_error") : error}};
}

std::string history_table(const Json& first, const Json& attempts, const Json& changes) {
  using enum Table::Align;
  Table table({{"RETRY", right, 0, 0, text_cell("attempt")},
               {"LEVEL", right, 0, 2, text_cell("level")},
               {"DUE (UTC)", left, 0, 5, utc_cell("due_at")},
               {"PUBLISHED (UTC)", left, 0, 0, utc_cell("published_at")},
               {"LATE", right, 0, 1, late_cell},
               {"OUTCOME", left, 0, 0, text_cell("outcome")},
               {"AFTER", right, 0, 3, after_cell},
               {"NODE", left, 8, 4, text_cell("node")},
               {"EXECUTOR", left, 8, 6, text_cell("executor")},
               {"RULE", left, 8, 7, text_cell("rule")},
               {"ERROR", left, 0, 0, [](const Json& a) { return error_line("", text_of(a, "error")); }}});
  table.whole_last().add(first);
  auto change = changes.begin();
  const auto add_changes = [&](std::optional<EpochMs> until) {
    for (; change != changes.end() && (!until || time_of(*change, "at") <= until); ++change)
      table.note(change_text(*change));
  };
  for (const Json& attempt : attempts) {
    const bool published = part_of(attempt, "published_at").is_string();
    add_changes(time_of(attempt, published ? "published_at" : "due_at"));
    table.add(attempt);
  }
  add_changes(std::nullopt);
  return table.str();
}

int history(const CLI::App& c) {
  Session session;
  const Json task = find_task(session, value_of(c, "ID"));
  const Json& attempts = part_of(task, "history");
  if (given().json) return print_json({{"attempts", attempts}, {"next", nullptr}});
  const Json first = first_row(session, task);
  const Json changes = need(read_rows(*session.api, path_of(task) + "/audit", {}, "audit"));
  const std::string message_id = text_of(task, "message_id");
  print(one_line(fmt::format("retry {} to {}{}", text_of(task, "retry_id"), destination(task),
                             message_id.empty() ? "" : ", message-id " + message_id)) +
        "\n\n" + history_table(first, attempts, part_of(changes, "audit")) + "\n" +
        one_line(next_of(session, task)) + "\n");
  return kSuccess;
}

// --------------------------------------------------------------------------------------------- rung audit

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
      {"AT (UTC)", left, 0, 0, utc_cell("at")},        {"WHO", left, 0, 0, text_cell("who")},
      {"WHAT", left, 0, 0, text_cell("what")},         {"QUEUE", left, 0, 0, text_cell("queue")},
      {"RETRY-ID", left, 0, 0, text_cell("retry_id")}, {"BULK", right, 0, 0, text_cell("bulk_id")},
      {"REASON", left, 0, 0, text_cell("reason")},     {"CHANGED", left, 0, 0, change_line}};
  if (!of_all) columns.erase(columns.begin() + 3, columns.begin() + 5);
  return Table(std::move(columns), changes).whole_last().str();
}

int audit(const CLI::App& c, std::span<const Field> fields) {
  const std::string id = value_of(c, "ID");
  Session session("", ConfigFor::reading);
  const std::string path = id.empty() ? "/v1/audit" : path_of(find_task(session, id)) + "/audit";
  return print_answer(
      read_page_of(c, session, path, read_params(c, fields, session.now), "audit"), [&](const Json& page) {
        return changes_text(part_of(page, "audit"), id.empty()) + more_text("there may be more", page);
      });
}

constexpr std::size_t kPage = 500;  // rows per page with --all

Table make_table(const std::string& queue, EpochMs now) {
  using enum Table::Align;
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
      {times_in_utc ? "SINCE" : "AGE", right, 0, 1, since},
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
  const std::vector<Field> filter = params_of("listTasks", {"count", "by"});
  CLI::App& list = add_command(
      app, "list", "Lists tasks, newest first",
      "Examples:\n"
      "  rung list --state parked --queue orders\n"
      "  rung list --due-before 10m            tasks due in the next ten minutes\n"
      "  rung list --correlation-id 4711       also --header tenant=acme, if index_headers lists tenant\n"
      "  rung list --state parked --count --by error_type\n"
      "  rung list --sort due --watch          refreshed every 2 s\n"
      "  rung list --all-pages --json | jq -r '.tasks[].retry_id'\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      [filter](const CLI::App& command) {
        const auto print_tasks = is_on(command, "--count") ? print_count : print_pages;
        return open_and_draw(command, [&](Session& session) {
          return print_tasks(session, command, filter, value_of(command, "--queue"));
        });
      });
  add_fields(list, filter, "Which tasks");
  add_page(list);
  CLI::Option* all = add_flag(list, "--all-pages,--all", "All pages").excludes("--limit");
  CLI::Option* count = add_flag(list, "--count", "Print only the number of tasks").excludes(all);
  add_count_by(list)->needs(count);
  add_watch(list)->excludes(all)->excludes("--count");

  CLI::App& show = add_command(app, "show", "Shows one task in detail",
                               "Examples:\n"
                               "  rung show 249107395289088\n"
                               "  rung show 249107395289088 --raw > body.bin\n"
                               "  rung show order-17                    by message-id: the newest task\n"
                               "  rung show 249107395289088 --json | jq .origin",
                               show_task);
  add_text(show, "ID", "A retry-id or a message-id").required();
  CLI::Option& raw = add_flag(show, "--raw", "Print only the body, as raw bytes");
  add_flag(show, "--trace", "Show the whole last error, not its first line alone").excludes(&raw);
  add_flag(show, "--body", "Include the body; control characters are escaped").excludes(&raw);

  CLI::App& attempts = add_command(
      app, "history",
      "Shows the history of a task: every attempt, every change by hand, and what happens next",
      "Examples:\n"
      "  rung history 249107395289088\n"
      "  rung history order-17                 by message-id: the newest task\n"
      "LATE: delay between the due time and the publish. AFTER: time until the consumer's result.",
      history);
  add_text(attempts, "ID", "A retry-id or a message-id").required();

  const std::vector<Field> fields = params_of("listAudit");
  CLI::App& changes = add_command(
      app, "audit", "Lists manual changes of a task, or of all, newest first: when, by whom, and what",
      "Examples:\n"
      "  rung audit 249107395289088\n"
      "  rung audit order-17                   by message-id: the newest task\n"
      "  rung audit --since 24h                of all tasks and queues\n"
      "  rung audit --queue orders --action redrive --who alice\n"
      "  rung audit --bulk 7                   what it did to each task\n"
      "A TIME is 2026-11-21T17:05:00Z (UTC unless it has an offset) or a duration such as 90m.",
      [fields](const CLI::App& command) { return audit(command, fields); });
  add_text(changes, "ID", "A retry-id or a message-id; without one all changes are listed");
  add_fields(changes, fields);
  add_page(changes);
}

}  // namespace rung::cli
