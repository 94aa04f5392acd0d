#include "src/api/tasks/audit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"

namespace rung::api {
namespace {

Json audit_row_json(const AuditPage::Row& row) {
  Json json = to_json(row.change);
  if (row.change.task.value == 0) json["retry_id"] = nullptr;
  json["queue"] = text_or_null(row.queue);
  return json;
}

}  // namespace

std::string cursor_of(const AuditPlace& place) {
  return std::to_string(place.id) + "." + std::to_string(place.at.ms);
}

std::optional<AuditPlace> audit_place_of(std::string_view cursor) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  const auto id = id_of_cursor(cursor.substr(0, dot));
  const auto at = id_of_cursor(cursor.substr(std::min(dot + 1, cursor.size())));
  if (!id || !at) return std::nullopt;
  return AuditPlace{{*at}, *id};
}

Json to_json(const AuditPage& page) {
  Json rows = Json::array();
  for (const AuditPage::Row& row : page.rows) rows.push_back(audit_row_json(row));
  return {{"audit", std::move(rows)}, {"next_cursor", page.next ? Json(cursor_of(*page.next)) : Json()}};
}

}  // namespace rung::api
