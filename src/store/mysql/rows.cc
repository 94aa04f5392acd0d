#include "src/store/mysql/rows.h"

#include "src/core/utf8.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kNameBytes = 255;  // VARCHAR(255) holds at least these

// Callers clean what they write; this is for the day one forgets: a column never refuses a whole batch.
Literal clean(std::string_view text, std::size_t most) {
  if (text.size() <= most && is_utf8(text)) return Literal::text(text);
  return Literal::text(clean_utf8(text, most));
}
Literal name(std::string_view text) { return clean(text, kNameBytes); }

Literal finished_by(FinishedBy by) {
  return by == FinishedBy::nobody ? Literal::null() : Literal::text(to_word(by));
}

}  // namespace

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column) {
  return row.getString(column).asStdString();
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
  t.state = state_from(text_at(row, ++c)).value_or(State::scheduled);
  t.kind = kind_from(text_at(row, ++c)).value_or(Kind::retry);
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
  return t;
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
  return a;
}

void add_new_task(Rows& rows, const NewTask& n) {
  const Task& t = n.task;
  rows.row() << Literal::number(t.id.value) << Literal::number(t.shard) << Literal::text(to_word(t.state))
             << Literal::text(to_word(t.kind)) << Literal::time(t.next_at) << Literal::number(t.attempt)
             << Literal::number(t.level) << Literal::number(t.levels) << Literal::number(t.max_attempts)
             << name(t.ladder) << Literal::number(t.ladder_pinned ? 1 : 0) << Literal::number(t.epoch)
             << Literal::number(t.node) << name(t.queue) << name(t.exchange) << name(t.routing_key)
             << name(t.tag) << name(t.message_id) << Literal::time(t.first_failed_at)
             << Literal::time(t.created_at) << Literal::time(t.finished_at) << finished_by(t.finished_by)
             << clean(t.last_error, kErrorBytes) << name(t.error_type) << Literal::number(t.body_bytes)
             << (n.intake_key.empty() ? Literal::null() : Literal::bytes(n.intake_key));
}

void add_task(Rows& rows, const Task& t) {
  rows.row() << Literal::number(t.id.value) << Literal::number(t.shard) << Literal::text(to_word(t.state))
             << Literal::time(t.next_at) << Literal::number(t.attempt) << Literal::number(t.level)
             << Literal::number(t.levels) << Literal::number(t.max_attempts) << name(t.ladder)
             << Literal::number(t.ladder_pinned ? 1 : 0) << Literal::number(t.epoch)
             << Literal::number(t.node) << Literal::time(t.finished_at) << finished_by(t.finished_by)
             << clean(t.last_error, kErrorBytes) << name(t.error_type);
}

void add_attempt(Rows& rows, const Attempt& a) {
  rows.row() << Literal::number(a.task.value) << Literal::number(a.attempt) << Literal::number(a.level)
             << Literal::time(a.due_at) << Literal::time(a.published_at) << Literal::text(to_word(a.outcome))
             << Literal::time(a.outcome_at) << clean(a.error, kErrorBytes) << Literal::number(a.node);
}

}  // namespace rung::mysql
