// rung show: the state and the facts of one task. rung history: its attempts, and what was changed by hand.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

// The parts that are not empty: "a, b".
std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : ", ") + part;
  }
  return out;
}
// "queue orders"; "" without a value.
std::string named(std::string_view name, const std::string& value) {
  return value.empty() ? std::string() : std::string(name) + " " + one_line(value);
}

// A summary of an x-death entry; --json has all of it.
std::string death_line(const Json& death) {
  std::string line =
      joined({named("dead-lettered:", text_of(death, "reason")), named("from queue", text_of(death, "queue")),
              named("exchange", text_of(death, "exchange"))});
  if (const Json& count = part_of(death, "count"); count.is_number_integer())
    line += fmt::format(", {} times", count.get<std::int64_t>());
  if (const Json& time = part_of(part_of(death, "time"), "!ts"); time.is_number_integer()) {
    // A stranger wrote it: seconds beyond any date stay below an overflow.
    const auto seconds = std::clamp<std::int64_t>(time.get<std::int64_t>(), 0, kYear10000.ms / 1000);
    line += ", first at " + format_utc({seconds * 1000}).substr(0, 19) + " UTC";
  }
  return line;
}

void add_line(std::string& out, const std::string& line) { out += (out.empty() ? "" : "\n") + line; }

// A line for each value; of x-death, which only an origin has, a line for each entry.
std::string table_lines(const Json& object) {
  std::string out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    if (name == "x-death" && value.is_array()) {
      for (const Json& death : value)
        add_line(out, death.is_object() ? death_line(death) : dump(death, false));
    } else {
      add_line(out, name + ": " + (value.is_string() ? value.get<std::string>() : dump(value, false)));
    }
  }
  return out;
}

// What a task's details do not have.
struct Facts {
  Json origin;
  Json message;        // properties, headers, body_base64; null: deleted by retention, or denied
  std::string denial;  // why the message may not be read; "" = it may
};

Facts read_facts(Session& session, const Json& task) {
  Facts facts;
  const auto origin = session.api->get(path_of(task) + "/origin");
  if (!origin && origin.error().kind != Error::Kind::not_found) throw Failed(origin.error());
  if (origin) facts.origin = part_of(*origin, "origin");
  auto message = session.api->call("GET", path_of(task) + "/message", nullptr, true);
  // With a role that may not see messages. (In this process it is a right in the database that is missing.)
  const bool role =
      !message && message.error().kind == Error::Kind::refused && !session.config.api.url.empty();
  if (!message && !role) throw Failed(message.error());
  if (role) {
    facts.denial = message.error().message;
  } else if (message->good()) {
    facts.message = std::move(message->json);
  } else if (message->status == 403) {  // of a queue that the token may not see messages of
    facts.denial = message->text("detail");
  } else if (message->status != 404) {
    throw Failed(error_of(*message));
  }
  return facts;
}

// The tasks that continue it, without its edited copy.
std::string continued_by(const Json& task) {
  std::string out;
  for (const Json& child : part_of(task, "children")) {
    if (!child.is_string() || child == part_of(task, "replaced_by")) continue;
    add_line(out, "retry-id " + child.get<std::string>());
  }
  return out;
}

// What silence means for this task; "" if its queue's rules decide.
std::string silence_line(const Json& task) {
  const Json& own = part_of(task, "success");
  const std::string success = text_of(own, "presumed_after"), failure = text_of(own, "reported_within");
  if (success.empty() && failure.empty()) return {};
  return "for " + success + failure + " after a delivery means " + (success.empty() ? "failure" : "success");
}

std::string attempts_line(const Json& task) {
  const std::int64_t most = number_of(task, "max_attempts"),
                     uncounted = number_of(task, "uncounted_attempts");
  std::string out = std::to_string(number_of(task, "attempt"));
  if (most > 0) out += fmt::format(" of at most {}", most);
  return uncounted > 0 ? out + fmt::format(", {} not counted", uncounted) : out;
}

// A message's body for people and scripts: UTF-8 text with control characters escaped; otherwise every byte
// that is not printable ASCII as \xNN.
std::string printable_body(std::string_view body) {
  if (is_utf8(body)) return lines(body, 0);
  std::string out;
  for (const char c : body) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f && c != '\\' ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

constexpr const char* kNotReadable =
    "properties, headers and body: they need a token with the role editor, for this queue";

std::string show_text(const Json& task, const Facts& facts, const Session& session, bool trace) {
  std::string out;
  const auto field = [&](std::string_view label, std::string_view text) { out += detail(label, text); };
  const auto text = [&](const char* name) { return text_of(task, name); };
  const auto at = [&](const char* name) { return moment_of(task, name, session.now); };
  const auto id = [&](const char* name) { return text(name).empty() ? "" : "retry-id " + text(name); };
  field("retry-id", text("retry_id"));
  field("state", text("state"));
  field("next", what_next(task, session.now));
  if (const Json& gate = part_of(task, "held"); gate.is_object()) field("held", one_line(held_text(gate)));
  const bool delay = text("kind") == to_word(Kind::delay);
  field("kind", text("kind"));
  const bool by_exchange = text("queue").empty() && flag_of(task, "by_exchange");
  field("queue", by_exchange ? "(by exchange)" : text("queue").empty() ? "(unknown)" : text("queue"));
  field(delay && by_exchange ? "goes to" : "published to",
        joined({named("exchange", text("exchange")), named("routing key", text("routing_key"))}));
  field("ladder",
        fmt::format("{}, level {} of {}{}", one_line(text("ladder")), number_of(task, "level"),
                    number_of(task, "levels"), flag_of(task, "ladder_pinned") ? ", set for this task" : ""));
  field(delay ? "deliveries" : "retries", attempts_line(task));
  field("silence", silence_line(task));
  if (const Json& attempts = part_of(task, "history"); !attempts.empty() && state_of(task) == State::awaiting)
    field("waits", one_line(text_of(attempts.back(), "error")));
  field("first failed", at("first_failed_at"));
  field("received", at("created_at"));
  const std::string by = text("finished_by");
  if (!at("finished_at").empty()) field("finished", at("finished_at") + (by.empty() ? "" : ", " + by));
  const std::string last = text("last_error"), error = error_line(text("error_type"), last);
  const std::size_t end = last.find('\n');
  const bool more = end != std::string::npos;
  field("last error", error + (!more   ? ""
                               : trace ? last.substr(end)
                                       : "\n(and its trace: rung show --trace)"));
  field("decided by", text("rule").empty() ? "" : "rule " + text("rule"));
  field("arrived with", table_lines(facts.origin));
  field(part_of(facts.origin, "edited").is_null() ? "continues" : "replaces", id("parent_id"));
  field("replaced by", id("replaced_by"));
  field("continued by", continued_by(task));
  field("message-id", text("message_id"));
  field("correlation", text("correlation_id"));
  field("tag", text("tag"));
  const bool stored = part_of(task, "body_stored") != false;
  field("body",
        fmt::format("{} bytes{}", number_of(task, "body_bytes"), stored ? "" : ", not in the database"));
  field("properties", table_lines(part_of(facts.message, "properties")));
  field("headers", table_lines(part_of(facts.message, "headers")));
  field("not readable", facts.denial.empty() ? "" : kNotReadable);
  field("version", std::to_string(number_of(task, "version")));
  field("shard",
        joined({std::to_string(number_of(task, "shard")), named("last processed by", text("node"))}));
  return out;
}

int show(const CLI::App& c) {
  const bool raw = is_on(c, "--raw"), with_body = is_on(c, "--body");
  Session session;
  Json task = find_task(session, value_of(c, "ID"));
  const Facts facts = read_facts(session, task);
  if ((raw || with_body) && !facts.denial.empty())
    throw Failed(kUserError,
                 std::string("this token may not read bodies: ") + kNotReadable + " (" + facts.denial + ")");
  const bool stored = part_of(task, "body_stored") != false && facts.message.is_object();
  const std::string body =
      stored ? api::from_base64(text_of(facts.message, "body_base64")).value_or("") : std::string();
  if (raw && facts.message.is_null())
    throw Failed(kNotFound, "the body of " + text_of(task, "retry_id") + " has been deleted");
  if (raw && !stored) throw Failed(kNotFound, not_stored_text(task));
  if (raw) {
    print(body);
    return kSuccess;
  }
  if (!given().json) {
    print(show_text(task, facts, session, is_on(c, "--trace")));
    if (with_body && stored) print("\n" + printable_body(body) + "\n");
    return kSuccess;
  }
  if (!facts.denial.empty()) task["denied"] = Json::array({"retry_bodies"});
  task["origin"] = facts.origin;
  task["properties"] = part_of(facts.message, "properties");
  task["headers"] = part_of(facts.message, "headers");
  if (with_body && stored && is_utf8(body)) task["body"] = body;
  if (with_body && stored && !is_utf8(body)) task["body_base64"] = text_of(facts.message, "body_base64");
  return print_json(task);
}

}  // namespace

void add_show(CLI::App& app) {
  CLI::App& c = add_command(app, "show", "Shows one task in detail",
                            "Examples:\n"
                            "  rung show 249107395289088\n"
                            "  rung show 249107395289088 --body\n"
                            "  rung show 249107395289088 --raw > body.bin\n"
                            "  rung show order-17                    by message-id: the newest task\n"
                            "  rung show 249107395289088 --json | jq .origin",
                            show);
  add_text(c, "ID", "A retry-id or a message-id").required();
  CLI::Option& raw = add_flag(c, "--raw", "Print only the body, as raw bytes");
  add_flag(c, "--trace", "Show the whole last error, not its first line alone").excludes(&raw);
  add_flag(c, "--body", "Include the body; unprintable bytes are escaped").excludes(&raw);
}

// ------------------------------------------------------------------------------------------- rung history

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
  return {word, colour_of(from_word<Outcome>(word).value_or(Outcome::pending))};
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

int history(const CLI::App& c) {
  Session session;
  const Json task = find_task(session, value_of(c, "ID"));
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

void add_history(CLI::App& app) {
  CLI::App& c = add_command(
      app, "history",
      "Shows the history of a task: every attempt, every change by hand, and what happens next",
      "Examples:\n"
      "  rung history 249107395289088\n"
      "  rung history order-17                 by message-id: the newest task\n"
      "LATE: delay between the due time and the publish. AFTER: time until the consumer's result.",
      history);
  add_text(c, "ID", "A retry-id or a message-id").required();
}

}  // namespace rung::cli
