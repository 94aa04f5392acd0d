#include "src/core/audit.h"

#include <nlohmann/json.hpp>

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
          {"version", t.version}};
}

std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

AuditRow audit_of(const Event& event, const Task& before, const Task& after, EpochMs at) {
  const Json all = facts(before);
  Json was = all, is = facts(after);
  for (const auto& [name, value] : all.items()) {
    if (is[name] != value) continue;
    was.erase(name);
    is.erase(name);
  }
  return {0, at, event.by_hand->who, std::string(name_of(event.what)), after.id, text(was), text(is)};
}

}  // namespace rung
