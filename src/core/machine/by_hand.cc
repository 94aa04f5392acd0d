#include "src/core/machine/by_hand.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json body_facts(const Message& message) {
  return {{"body_bytes", message.body.size()}, {"body_sha256", to_hex(sha256(message.body))}};
}

// The names of headers that differ, and how. No values: whoever reads the audit may not see messages.
Json changed_headers(const Table& before, const Table& after) {
  Json headers = Json::object();
  std::size_t left_out = 0;
  const auto note = [&](const std::string& name, const char* how) {
    if (headers.size() < kHeadersTold || headers.contains(name)) {
      headers[name] = how;
    } else {
      ++left_out;
    }
  };
  for (const auto& [name, value] : before) {
    const Value* is = find(after, name);
    if (is == nullptr || *is != value) note(name, is == nullptr ? "removed" : "changed");
  }
  for (const auto& [name, value] : after) {
    if (find(before, name) == nullptr) note(name, "added");
  }
  if (left_out > 0) headers["(left out)"] = left_out;
  return headers;
}

}  // namespace

NewTask Submission::begun(const RuleBook& rules, EpochMs now) const {
  NewTask made = task;
  made.task.created_at = now;
  made.task.rule_headers = rule_headers_of(*made.message, rules);
  begin_delay(made.task, directives, rules, now, at.value_or(now + delay));
  return made;
}

std::string submission_key(std::string_view message_id) {
  return message_id.empty() ? "" : key_of_facts(facts_of({"submit", message_id}));
}

std::string submission_content(const NewTask& task, const Directives& directives) {
  const Task& t = task.task;
  std::string facts = facts_of({t.queue, t.exchange, t.routing_key, t.tag, t.message_id, directives.ladder,
                                std::to_string(directives.max_attempts), message_digest(*task.message)});
  if (t.silence) {
    facts += facts_of({t.silence->means == Silence::Means::success ? "success" : "failure",
                       std::to_string(t.silence->after.count())});
  }
  return to_hex(sha256(facts));
}

std::string submission_origin(std::string_view who, std::string_view content) {
  return dumped({{kSubmitted, {{"by", who}, {"content", content}}}});
}

std::string why_not_editable(const Task& task) {
  if (task.replaced_by.value != 0)
    return "it was replaced by task " + task.replaced_by.str() + " already: edit that one, if it is parked";
  const std::string only = "only a parked task can be edited: it is " + std::string(to_word(task.state));
  switch (task.state) {
    case State::parked:
      break;
    case State::scheduled:
      return only + "; wait until it is parked, or cancel it and submit the changed message as a new task";
    case State::publishing:
    case State::awaiting:
      return only + "; if it fails for good it is parked, and can be edited then";
    case State::succeeded:
    case State::cancelled:
    case State::discarded:
      return only + "; submit the changed message as a new task";
    case State::unknown:
      return std::string(kUnknownState);
  }
  return {};
}

MessageDifference difference(const Message& before, const Message& after) {
  Json was = Json::object(), is = Json::object();
  if (!(before.body == after.body)) {
    was = body_facts(before);
    is = body_facts(after);
  }
  if (before.headers != after.headers)
    is["headers"] = changed_headers(before.headers.value_or(Table{}), after.headers.value_or(Table{}));
  return {dumped(was), dumped(is)};
}

std::string edit_content(const Message& edited) { return to_hex(message_digest(edited)); }

std::string edit_origin(std::string_view who, TaskId original, const Message& edited,
                        std::string_view origin_json) {
  Json json = Json::parse(origin_json, nullptr, false);
  if (!json.is_object()) json = Json::object();
  json[kEdited] = {{"by", who}, {"from", original.str()}, {"content", edit_content(edited)}};
  return dumped(json);
}

std::string content_of_origin(std::string_view origin_json, const std::string& made) {
  const Json json = Json::parse(origin_json, nullptr, false);
  const Json::json_pointer content("/" + made + "/content");
  return json.contains(content) && json[content].is_string() ? json[content].get<std::string>() : "";
}

namespace {

Json time_of(const std::optional<EpochMs>& at) { return at ? Json(format_utc(*at)) : Json(); }

Json facts(const Task& t) {
  const bool is_due = t.state == State::scheduled || t.state == State::publishing;
  return {{"state", to_word(t.state)},
          {"next_due_at", is_due ? time_of(t.next_at) : Json()},
          {"queue", t.queue},
          {"exchange", t.exchange},
          {"routing_key", t.routing_key},
          {"attempt", t.attempt},
          {"level", t.level},
          {"levels", t.levels},
          {"finished_at", time_of(t.finished_at)},
          {"finished_by", to_word(t.finished_by)},
          {"last_error", t.last_error.substr(0, 1000)},
          {"replaced_by", t.replaced_by.value == 0 ? Json() : Json(t.replaced_by.str())},
          {"version", t.version}};
}

// "" if the event leaves no audit row.
std::string who_of(const Event& event, const Task& before) {
  if (event.by_hand) return event.by_hand->who;
  if (!is_finished(before.state)) return {};
  // "amqp" means through the broker, of any kind. Stored, and part of the contract.
  const auto who = [](const auto& result) {
    return (result.executor.empty() ? "a consumer" : clean_utf8(result.executor, 200)) +
           (result.proven ? " (amqp, with retry-token)" : " (amqp, no retry-token)");
  };
  if (const auto* failed = std::get_if<event::Failed>(&event.what)) return who(*failed);
  if (const auto* succeeded = std::get_if<event::Succeeded>(&event.what)) return who(*succeeded);
  return {};
}

}  // namespace

std::optional<AuditRow> audit_of(const Event& event, const Task& before, const Task& after, EpochMs at) {
  std::string who = who_of(event, before);
  if (who.empty()) return std::nullopt;
  const Json all = facts(before);
  Json was = all, is = facts(after);
  for (const auto& [name, value] : all.items()) {
    if (is[name] != value) continue;
    was.erase(name);
    is.erase(name);
  }
  if (const auto* edit = std::get_if<event::Edit>(&event.what)) {
    was.update(Json::parse(edit->edited->before, nullptr, false));
    is.update(Json::parse(edit->edited->after, nullptr, false));
  }
  AuditRow row{0, at, std::move(who), std::string(name_of(event.what)), after.id, dumped(was), dumped(is)};
  if (after.came_back != before.came_back) row.reason = kCameBack;
  if (event.by_hand) {
    row.reason = clean_utf8(event.by_hand->reason, kErrorBytes);
    row.bulk = event.by_hand->bulk;
  }
  return row;
}

}  // namespace rung
