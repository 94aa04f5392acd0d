#include "src/api/tasks/event_body.h"

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "src/api/tasks/causes.h"
#include "src/api/tasks/views.h"
#include "src/core/base/rfc3339.h"

namespace rung::api {
namespace {

// A failure that its consumer publishes to rung.failed, or a framework to an error queue, need not name the
// exchange that the message came by.
bool is_an_event(const Task& task, const std::string& exchange) {
  return task.exchange == exchange || is_event_type(task.tag);
}

Result<Json> cause_of(Store& store, const std::string& id) {
  const auto rows = store.causes({.id = id, .limit = 1});
  if (!rows) return tl::unexpected(rows.error());
  return rows->empty() ? Json() : to_json(rows->front());
}

Result<Json> bulk_of(Store& store, const std::string& id) {
  std::int64_t number = 0;  // a row that was changed by hand: no such bulk
  std::from_chars(id.data(), id.data() + id.size(), number);
  const auto bulk = store.bulk(number);
  if (!bulk) return tl::unexpected(bulk.error());
  return *bulk ? to_json(**bulk) : Json();
}

}  // namespace

Result<std::optional<std::string>> event_body(Store& store, const OutgoingEvent& event,
                                              const std::string& exchange) {
  Json json = {{"id", std::to_string(event.id)},
               {"type", to_word(event.kind)},
               {"at", to_rfc3339(event.at)},
               {"queue", text_or_null(event.queue)}};
  if (event.kind == OutgoingKind::task_parked) {
    const auto row = store.find(TaskId::parse(event.subject).value_or(TaskId{}));
    if (!row) return tl::unexpected(row.error());
    if (*row && is_an_event((*row)->task, exchange)) return std::nullopt;
    json["task"] = *row ? to_json(**row) : Json();
  } else {
    const bool bulk = event.kind == OutgoingKind::bulk_ended;
    auto object = bulk ? bulk_of(store, event.subject) : cause_of(store, event.subject);
    if (!object) return tl::unexpected(object.error());
    json[bulk ? "bulk" : "cause"] = *std::move(object);
  }
  return dump(json);
}

}  // namespace rung::api
