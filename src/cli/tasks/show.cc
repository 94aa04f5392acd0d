// rung show: the state and the facts of one task.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/messages/submission.h"
#include "src/api/queues/gates.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/headers.h"
#include "src/core/message/message_json.h"

namespace rung::cli {
namespace {

struct ShowOptions {
  TaskOptions task;
  bool body = false, raw = false, trace = false;
};

// A summary of an x-death entry; --json has all of it.
std::string death_line(const Json& death) {
  const auto text = [&](const char* key) {
    return death.contains(key) && death[key].is_string() ? death[key].get<std::string>() : std::string();
  };
  std::string line = joined({named("dead-lettered:", text("reason")), named("from queue", text("queue")),
                             named("exchange", text("exchange"))});
  if (death.contains("count") && death["count"].is_number_integer())
    line += fmt::format(", {} times", death["count"].get<std::int64_t>());
  if (death.contains("time") && death["time"].is_object() && death["time"].contains("!ts") &&
      death["time"]["!ts"].is_number_integer()) {
    // A stranger wrote it: seconds beyond any date stay below an overflow.
    const auto seconds =
        std::clamp<std::int64_t>(death["time"]["!ts"].get<std::int64_t>(), 0, kYear10000.ms / 1000);
    line += ", first at " + format_utc({seconds * 1000}).substr(0, 19) + " UTC";
  }
  return line;
}

std::string origin_lines(const Json& origin) {
  std::string out;
  for (const auto& [name, value] : origin.items()) {
    if (name == "x-death" && value.is_array()) {
      for (const Json& death : value)
        out += (out.empty() ? "" : "\n") + (death.is_object() ? death_line(death) : dump(death, false));
    } else {
      out += (out.empty() ? "" : "\n") + name + ": " +
             (value.is_string() ? value.get<std::string>() : dump(value, false));
    }
  }
  return out;
}

std::string table_lines(const Json& object) {
  std::string out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    out += (out.empty() ? "" : "\n") + name + ": " +
           (value.is_string() ? value.get<std::string>() : dump(value, false));
  }
  return out;
}

Json parse(const std::string& text) { return Json::parse(text, nullptr, false); }

constexpr const char* kBodies = "retry_bodies";

struct Facts {
  Json origin, properties, headers;
  MessagePtr message;             // nullptr: deleted by retention
  std::optional<QueueGate> gate;  // that holds it back
  std::vector<AttemptRow> history;
  std::vector<TaskId> children;
  std::vector<std::string> denied;  // views that the user may not read
  std::string denial;               // the database's message for the body
  std::string silence_held;         // why its silence is held open, or begins later; "" = it does not
  Silence silence;                  // what it means
};

// Whether the user has no right to read `view`, which is then noted.
bool is_denied(const Error& error, const char* view, Facts& facts) {
  if (error.kind != Error::Kind::refused) return false;
  facts.denied.emplace_back(view);
  return true;
}

int read_facts(Session& session, const Task& task, Facts& facts) {
  TaskQueries& tasks = *session.service.tasks;
  const TaskId id = task.id;
  auto gate = tasks.holding_gate(task);
  if (gate) {
    facts.gate = *std::move(gate);
  } else if (!is_denied(gate.error(), "retry_queues", facts)) {
    return report_error(gate.error());
  }
  auto history = tasks.history(id);
  if (history) {
    facts.history = *std::move(history);
  } else if (!is_denied(history.error(), "retry_history", facts)) {
    return report_error(history.error());
  }
  if (task.state == State::awaiting && !facts.history.empty())
    facts.silence_held = facts.history.back().attempt.error;
  auto silence = tasks.silence_of(task);
  if (!silence) return report_error(silence.error());
  facts.silence = *silence;
  auto children = tasks.children(task);
  if (!children) return report_error(children.error());
  facts.children = *std::move(children);
  auto origin = tasks.origin(id);
  if (!origin && origin.error().kind != Error::Kind::not_found &&
      !is_denied(origin.error(), "retry_origins", facts))
    return report_error(origin.error());
  facts.origin = origin && !origin->empty() ? parse(*origin) : Json();
  if (facts.origin.is_discarded()) facts.origin = Json();
  auto message = tasks.message(id);
  if (!message && is_denied(message.error(), kBodies, facts)) {
    facts.denial = message.error().message;
    return kSuccess;
  }
  if (!message) return report_error(message.error());
  facts.message = *std::move(message);
  if (facts.message == nullptr) return kSuccess;
  facts.properties = parse(properties_to_json(facts.message->properties));
  if (facts.message->headers) facts.headers = parse(headers_to_json(*facts.message->headers));
  return kSuccess;
}

// Its message is an edited copy of its parent's.
bool is_edited(const Facts& facts) { return facts.origin.is_object() && facts.origin.contains("edited"); }

// The tasks that continue it, without its edited copy.
std::string continued_by(const Task& task, const Facts& facts) {
  std::string out;
  for (const TaskId child : facts.children) {
    if (child == task.replaced_by) continue;
    out += (out.empty() ? "retry-id " : "\nretry-id ") + child.str();
  }
  return out;
}

// What silence means for this task; "" if its queue's rules decide.
std::string silence_line(const Task& task) {
  if (!task.silence) return {};
  return fmt::format("for {} after a delivery means {}", levels::format_duration(task.silence->after),
                     task.silence->means == Silence::Means::success ? "success" : "failure");
}

std::string show_text(const TaskRow& row, const Facts& facts, const Session& session, bool trace) {
  const Terminal terminal = Terminal::of_stdout();
  const Task& t = row.task;
  const auto at = [&](EpochMs time) { return moment(time, session.now); };
  std::string out;
  // Label and text; further lines are indented to the first.
  const auto field = [&](std::string_view label, std::string_view text) {
    constexpr std::size_t kLabel = 14;
    if (text.empty()) return;
    const std::string pad(kLabel - std::min(kLabel, label.size()), ' ');
    out += paint(label, Colour::dim, terminal) + pad + lines(text, kLabel) + "\n";
  };
  field("retry-id", t.id.str());
  field("state", to_word(t.state));
  field("next", what_next(row, facts.silence.means, session.now));
  if (facts.gate) field("held", one_line(held_text(*facts.gate)));
  const bool delay = t.kind == Kind::delay;
  field("kind", to_word(t.kind));
  const bool by_exchange = t.queue.empty() && target_of(t).is_set();
  field("queue", by_exchange ? "(by exchange)" : t.queue.empty() ? "(unknown)" : t.queue);
  field(delay && by_exchange ? "goes to" : "published to",
        joined({named("exchange", t.exchange), named("routing key", t.routing_key)}));
  field("ladder", fmt::format("{}, level {} of {}{}", one_line(t.ladder), t.level, t.levels,
                              t.ladder_pinned ? ", set for this task" : ""));
  field(delay ? "deliveries" : "retries",
        (t.max_attempts > 0 ? fmt::format("{} of at most {}", t.attempt, t.max_attempts)
                            : std::to_string(t.attempt)) +
            (t.uncounted_attempts > 0 ? fmt::format(", {} not counted", t.uncounted_attempts) : ""));
  field("silence", silence_line(t));
  field("waits", one_line(facts.silence_held));
  if (t.first_failed_at.ms > 0) field("first failed", at(t.first_failed_at));
  field("received", at(t.created_at));
  if (t.finished_at)
    field("finished",
          at(*t.finished_at) +
              (t.finished_by == FinishedBy::nobody ? "" : ", " + std::string(to_word(t.finished_by))));
  const std::string error = error_line(t.error_type, t.last_error);
  const std::size_t end = t.last_error.find('\n');
  const bool more = end != std::string::npos;
  field("last error", error + (!more   ? ""
                               : trace ? t.last_error.substr(end)
                                       : "\n(and its trace: rung show --trace)"));
  field("decided by", t.rule.empty() ? "" : "rule " + t.rule);
  field("arrived with", facts.origin.is_object() ? origin_lines(facts.origin) : "");
  if (t.parent.value != 0) field(is_edited(facts) ? "replaces" : "continues", "retry-id " + t.parent.str());
  if (t.replaced_by.value != 0) field("replaced by", "retry-id " + t.replaced_by.str());
  field("continued by", continued_by(t, facts));
  field("message-id", t.message_id);
  field("correlation", row.correlation_id.value_or(""));
  field("tag", t.tag);
  field("body", fmt::format("{} bytes{}", t.body_bytes, body_stored(t) ? "" : ", not in the database"));
  field("properties", table_lines(facts.properties));
  field("headers", table_lines(facts.headers));
  std::string denied;
  for (const std::string& view : facts.denied)
    denied += (denied.empty() ? "" : "\n") + session.service.tasks->missing_right(view);
  field("not readable", denied);
  field("version", std::to_string(t.version));
  field("shard", joined({std::to_string(t.shard), named("last processed by", row.node)}));
  return out;
}

// The body was asked for, and may not be read.
int report_denied_body(const Facts& facts, const Session& session) {
  const TaskQueries& tasks = *session.service.tasks;
  return report_error(kUserError, tasks.whose() + " may not read bodies: " + tasks.missing_right(kBodies) +
                                      " (" + facts.denial + ")");
}

// Prints only the body's bytes.
int show_raw(const ShowOptions& options) {
  Session session;
  TaskRow row;
  if (const int code = open_task(options.task, session, row); code != kSuccess) return code;
  Facts facts;
  if (const int code = read_facts(session, row.task, facts); code != kSuccess) return code;
  if (!facts.denial.empty()) return report_denied_body(facts, session);
  if (facts.message == nullptr)
    return report_error(kNotFound, "the body of " + row.task.id.str() + " has been deleted");
  if (!body_stored(row.task)) return report_error(kNotFound, not_stored_text(row.task));
  print(facts.message->body);
  return kSuccess;
}

int show(const ShowOptions& options) {
  if (options.raw) return show_raw(options);
  Session session;
  TaskRow row;
  if (const int code = open_task(options.task, session, row); code != kSuccess) return code;
  Facts facts;
  if (const int code = read_facts(session, row.task, facts); code != kSuccess) return code;
  if (options.body && !facts.denial.empty()) return report_denied_body(facts, session);
  if (!options.task.common.json) {
    print(show_text(row, facts, session, options.trace));
    if (options.body && facts.message != nullptr && body_stored(row.task))
      print("\n" + printable_body(facts.message->body) + "\n");
    return kSuccess;
  }
  Json json = api::to_json(api::TaskDetails{row, facts.history, facts.gate, facts.silence, facts.children});
  if (!facts.denied.empty()) json["denied"] = facts.denied;
  json["origin"] = facts.origin;
  json["properties"] = facts.properties;
  json["headers"] = facts.headers;
  if (options.body && facts.message != nullptr && body_stored(row.task)) {
    const std::string& body = facts.message->body;
    if (is_utf8(body)) json["body"] = body;
    if (!is_utf8(body)) json["body_base64"] = api::to_base64(body);
  }
  return print_json(json);
}

}  // namespace

void add_show(CLI::App& app, int* exit) {
  auto o = std::make_shared<ShowOptions>();
  CLI::App& c = add_service_command(app, "show", "Shows one task in detail",
                                    "Examples:\n"
                                    "  rung show 249107395289088\n"
                                    "  rung show 249107395289088 --body\n"
                                    "  rung show 249107395289088 --raw > body.bin\n"
                                    "  rung show order-17                    by message-id: the newest task\n"
                                    "  rung show 249107395289088 --json | jq .origin",
                                    o->task.common);
  add_utc(c);
  c.add_option("ID", o->task.id, "A retry-id or a message-id")->required();
  CLI::Option* raw = c.add_flag("--raw", o->raw, "Print only the body, as raw bytes");
  c.add_flag("--trace", o->trace, "Show the whole last error, not its first line alone")->excludes(raw);
  c.add_flag("--body", o->body, "Include the body; unprintable bytes are escaped")->excludes(raw);
  c.callback([o, exit] { *exit = show(*o); });
}

}  // namespace rung::cli
