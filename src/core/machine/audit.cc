#include "src/core/machine/audit.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "src/core/base/utf8.h"

namespace rung {
namespace {

using Json = nlohmann::ordered_json;

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

std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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
  AuditRow row{0, at, std::move(who), std::string(name_of(event.what)), after.id, text(was), text(is)};
  if (after.came_back != before.came_back) row.reason = kCameBack;
  if (event.by_hand) {
    row.reason = clean_utf8(event.by_hand->reason, kErrorBytes);
    row.bulk = event.by_hand->bulk;
  }
  return row;
}

}  // namespace rung
