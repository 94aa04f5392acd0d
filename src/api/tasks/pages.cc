#include "src/api/tasks/pages.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "src/api/queues/gates.h"
#include "src/api/tasks/views.h"
#include "src/core/base/time.h"

namespace rung::api {

namespace {

// Of rows behind the cursor. `cursor(row)` is what `next` is after it, `show(row)` its JSON.
template <typename Rows, typename Cursor, typename Show>
Json cut(const char* list, const Rows& rows, int limit, Cursor cursor, Show show) {
  const auto most = static_cast<std::size_t>(limit);
  Json json = {{list, Json::array()}};
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) json[list].push_back(show(rows[i]));
  json["next"] = rows.size() > most ? Json(cursor(rows[most - 1])) : Json();
  return json;
}

// Those with a larger id than the cursor's. `id(row)`.
template <typename Row, typename Id>
std::vector<Row> behind(const std::vector<Row>& rows, const Page& page, Id id) {
  const std::int64_t after = id_of_cursor(page.cursor).value_or(-1);
  std::vector<Row> out;
  std::ranges::copy_if(rows, std::back_inserter(out), [&](const Row& row) { return id(row) > after; });
  return out;
}

}  // namespace

std::string cursor_of(const Task& task, Filter::Order order) {
  const auto due = order == Filter::Order::due ? due_of(task) : std::nullopt;
  return task.id.str() + (due ? "." + std::to_string(due->ms) : "");
}

bool read_cursor(std::string_view cursor, Filter& filter) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  filter.after_due.reset();
  filter.after = TaskId::parse(cursor.substr(0, dot));
  if (dot == cursor.size()) return filter.after.has_value();
  const auto due = id_of_cursor(cursor.substr(dot + 1));
  if (due) filter.after_due = EpochMs{*due};
  return due && filter.after && filter.order == Filter::Order::due;
}

std::optional<std::int64_t> id_of_cursor(std::string_view cursor) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), id);
  const bool whole = error == std::errc{} && end == cursor.data() + cursor.size();
  return whole && id >= 0 ? std::optional(id) : std::nullopt;
}

Json tasks_page(const std::vector<TaskRow>& rows, int limit, Filter::Order order) {
  return cut(
      "tasks", rows, limit, [&](const TaskRow& row) { return cursor_of(row.task, order); },
      [](const TaskRow& row) { return to_json(row); });
}

Json bulks_page(const std::vector<Bulk>& bulks, int limit) {
  return cut(
      "bulks", bulks, limit, [](const Bulk& bulk) { return std::to_string(bulk.id); },
      [](const Bulk& bulk) { return to_json(bulk); });
}

Json history_page(const std::vector<AttemptRow>& rows, const Page& page) {
  const auto attempt = [](const AttemptRow& row) { return row.attempt.attempt; };
  return cut(
      "attempts", behind(rows, page, attempt), page.limit,
      [&](const AttemptRow& row) { return std::to_string(attempt(row)); },
      [](const AttemptRow& row) { return to_json(row); });
}

Json audit_page(const std::vector<AuditRow>& rows, const Page& page) {
  return cut(
      "changes", behind(rows, page, [](const AuditRow& row) { return row.id; }), page.limit,
      [](const AuditRow& row) { return std::to_string(row.id); },
      [](const AuditRow& row) { return to_json(row); });
}

Json queues_page(std::vector<QueueGate> gates, const Page& page) {
  std::erase_if(gates, [&](const QueueGate& gate) { return gate.queue <= page.cursor; });
  std::ranges::sort(gates, {}, &QueueGate::queue);
  return cut(
      "queues", gates, page.limit, [](const QueueGate& gate) { return gate.queue; },
      [](const QueueGate& gate) { return to_json(gate); });
}

Json overview_queues(std::vector<QueueGate> gates, std::size_t most) {
  const auto flows = [](const QueueGate& gate) { return gate.state == "flowing"; };
  std::ranges::sort(gates, {}, [&](const QueueGate& gate) { return std::pair(flows(gate), -gate.waiting); });
  const auto flowing = static_cast<std::size_t>(std::ranges::count_if(gates, flows));
  const std::size_t shown = std::max(std::min(gates.size(), most), gates.size() - flowing);
  Json json = {{"queues", Json::array()}, {"queues_left_out", gates.size() - shown}};
  for (std::size_t i = 0; i < shown; ++i) json["queues"].push_back(to_json(gates[i]));
  return json;
}

Json nodes_page(const Nodes& nodes, EpochMs now, const Page& page) {
  Json json = cut(
      "nodes", behind(nodes.rows, page, [](const NodeRow& node) { return node.id; }), page.limit,
      [](const NodeRow& node) { return std::to_string(node.id); },
      [&](const NodeRow& node) { return node_json(nodes, node, now); });
  json["unowned"] = unowned_json(nodes, now);
  json["not_shown"] = nodes.hidden;
  return json;
}

}  // namespace rung::api
