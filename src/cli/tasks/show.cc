// rung show: the state and the facts of one task.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

struct ShowOptions {
  std::string id;  // a retry-id or a message-id
  bool body = false, raw = false, trace = false;
};

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

std::string named_value(const std::string& name, const Json& value) {
  return name + ": " + (value.is_string() ? value.get<std::string>() : dump(value, false));
}

std::string origin_lines(const Json& origin) {
  std::string out;
  for (const auto& [name, value] : origin.items()) {
    if (name == "x-death" && value.is_array()) {
      for (const Json& death : value)
        add_line(out, death.is_object() ? death_line(death) : dump(death, false));
    } else {
      add_line(out, named_value(name, value));
    }
  }
  return out;
}

std::string table_lines(const Json& object) {
  std::string out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) add_line(out, named_value(name, value));
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
  auto message = session.api->call_patiently("GET", path_of(task) + "/message");
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
  field("arrived with", facts.origin.is_object() ? origin_lines(facts.origin) : "");
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

int show(const ShowOptions& options) {
  Session session;
  Json task = find_task(session, options.id);
  const Facts facts = read_facts(session, task);
  if ((options.raw || options.body) && !facts.denial.empty())
    throw Failed(kUserError,
                 std::string("this token may not read bodies: ") + kNotReadable + " (" + facts.denial + ")");
  const bool stored = part_of(task, "body_stored") != false && facts.message.is_object();
  const std::string body =
      stored ? api::from_base64(text_of(facts.message, "body_base64")).value_or("") : std::string();
  if (options.raw && facts.message.is_null())
    throw Failed(kNotFound, "the body of " + text_of(task, "retry_id") + " has been deleted");
  if (options.raw && !stored) throw Failed(kNotFound, not_stored_text(task));
  if (options.raw) {
    print(body);
    return kSuccess;
  }
  if (!given().json) {
    print(show_text(task, facts, session, options.trace));
    if (options.body && stored) print("\n" + printable_body(body) + "\n");
    return kSuccess;
  }
  if (!facts.denial.empty()) task["denied"] = Json::array({"retry_bodies"});
  task["origin"] = facts.origin;
  task["properties"] = part_of(facts.message, "properties");
  task["headers"] = part_of(facts.message, "headers");
  if (options.body && stored && is_utf8(body)) task["body"] = body;
  if (options.body && stored && !is_utf8(body)) task["body_base64"] = text_of(facts.message, "body_base64");
  return print_json(task);
}

}  // namespace

void add_show(CLI::App& app, int* exit) {
  auto o = std::make_shared<ShowOptions>();
  CLI::App& c = add_command(app, "show", "Shows one task in detail",
                            "Examples:\n"
                            "  rung show 249107395289088\n"
                            "  rung show 249107395289088 --body\n"
                            "  rung show 249107395289088 --raw > body.bin\n"
                            "  rung show order-17                    by message-id: the newest task\n"
                            "  rung show 249107395289088 --json | jq .origin");
  c.add_option("ID", o->id, "A retry-id or a message-id")->required();
  CLI::Option* raw = c.add_flag("--raw", o->raw, "Print only the body, as raw bytes");
  c.add_flag("--trace", o->trace, "Show the whole last error, not its first line alone")->excludes(raw);
  c.add_flag("--body", o->body, "Include the body; unprintable bytes are escaped")->excludes(raw);
  c.callback([o, exit] { *exit = show(*o); });
}

}  // namespace rung::cli
