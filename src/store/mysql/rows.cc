#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/message/message.h"
#include "src/store/mysql/columns.h"
#include "src/store/mysql/render.h"

namespace rung::mysql {

// What is not text was changed by hand: left out.
RuleHeaders rule_headers_from(const std::string& text) {
  RuleHeaders out;
  if (text.empty()) return out;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return out;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) out.emplace(name, value.get<std::string>());
  }
  return out;
}

namespace {

// The columns that few tasks use, as an array; "" = none of them is used.
void read_rare(Task& task, const std::string& text) {
  if (text.empty()) return;
  const auto json = nlohmann::json::parse(text);
  task.rule = json.at(0).get<std::string>();
  task.uncounted_attempts = json.at(1).get<int>();
  task.uncounted_time = Ms{json.at(2).get<std::int64_t>()};
  task.moved_from = json.at(3).get<std::string>();
  task.probe = json.at(4).get<int>();
  if (json.at(5).is_string()) task.rule_headers = rule_headers_from(json.at(5).get<std::string>());
  task.error_queue = json.at(6).get<std::string>();
  task.replaced_by = {json.at(7).get<std::int64_t>()};
  task.came_back = json.at(8).get<std::uint32_t>();
}

}  // namespace

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column) {
  return row.getString(column).asStdString();
}

std::optional<Silence> silence_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const std::string means = text_at(row, column);
  if (means.empty()) return std::nullopt;
  return Silence{means == kSilenceSuccess ? Silence::Means::success : Silence::Means::failure,
                 Ms{row.getInt64(column + 1)}};
}

std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const auto text = row.getString(column);
  if (text.length() == 0) return std::nullopt;
  return parse_datetime(text.asStdString());
}

Task task_at(const ::sql::ResultSet& row) {
  Task t;
  std::uint32_t c = 0;
  t.id = {row.getInt64(++c)};
  t.shard = row.getInt(++c);
  t.state = state_from(text_at(row, ++c)).value_or(State::unknown);
  const auto kind = kind_from(text_at(row, ++c));
  if (!kind) t.state = State::unknown;
  t.kind = kind.value_or(Kind::retry);
  t.next_at = time_at(row, ++c);
  t.attempt = row.getInt(++c);
  t.level = row.getInt(++c);
  t.levels = row.getInt(++c);
  t.max_attempts = row.getInt(++c);
  t.ladder = text_at(row, ++c);
  t.ladder_pinned = row.getInt(++c) != 0;
  t.epoch = row.getUInt64(++c);
  t.node = row.getInt(++c);
  t.queue = text_at(row, ++c);
  t.exchange = text_at(row, ++c);
  t.routing_key = text_at(row, ++c);
  t.tag = text_at(row, ++c);
  t.message_id = text_at(row, ++c);
  t.first_failed_at = time_at(row, ++c).value_or(EpochMs{});
  t.created_at = time_at(row, ++c).value_or(EpochMs{});
  t.finished_at = time_at(row, ++c);
  t.finished_by = finished_by_from(text_at(row, ++c)).value_or(FinishedBy::nobody);
  t.last_error = text_at(row, ++c);
  t.error_type = text_at(row, ++c);
  t.body_bytes = row.getInt64(++c);
  t.version = row.getUInt(++c);
  t.silence = silence_at(row, ++c);
  ++c;
  t.said = silence_at(row, ++c);
  ++c;
  t.by_exchange = row.getInt(++c) != 0;
  t.digest = text_at(row, ++c);
  t.parent = {row.getInt64(++c)};
  t.cause = text_at(row, ++c);
  t.copy_number = row.getUInt(++c);
  read_rare(t, text_at(row, ++c));
  return t;
}

namespace {

StoredMessage message_at(const ::sql::ResultSet& row) {
  const TaskId id{row.getInt64(1)};
  auto message = std::make_shared<Message>();
  auto properties = properties_from_json(text_at(row, 2));
  if (!properties) return {id, nullptr, "properties: " + properties.error().message};
  message->properties = std::move(*properties);
  if (!row.isNull(3)) {
    auto headers = headers_from_json(text_at(row, 3));
    if (!headers) return {id, nullptr, "headers: " + headers.error().message};
    message->headers = std::move(*headers);
  }
  message->body = text_at(row, 4);
  return {id, std::move(message)};
}

}  // namespace

std::vector<StoredMessage> messages_at(::sql::ResultSet& rows) {
  std::vector<StoredMessage> out;
  while (rows.next()) out.push_back(message_at(rows));
  return out;
}

Attempt attempt_at(const ::sql::ResultSet& row) {
  Attempt a;
  std::uint32_t c = 0;
  a.task = {row.getInt64(++c)};
  a.attempt = row.getInt(++c);
  a.level = row.getInt(++c);
  a.due_at = time_at(row, ++c).value_or(EpochMs{});
  a.published_at = time_at(row, ++c);
  a.outcome = outcome_from(text_at(row, ++c)).value_or(Outcome::pending);
  a.outcome_at = time_at(row, ++c);
  a.error = text_at(row, ++c);
  a.node = row.getInt(++c);
  a.executor = text_at(row, ++c);
  a.rule = text_at(row, ++c);
  return a;
}

}  // namespace rung::mysql
