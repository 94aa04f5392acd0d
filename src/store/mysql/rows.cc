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

constexpr std::string_view kSuccess = "success", kFailure = "failure";

Literal means(const std::optional<Silence>& silence) {
  if (!silence) return Literal::null();
  return Literal::text(silence->means == Silence::Means::success ? kSuccess : kFailure);
}
Literal silence_ms(const std::optional<Silence>& silence) {
  return silence ? Literal::number(silence->after.count()) : Literal::null();
}

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
  t.version = row.getUInt(++c);
  const std::string means = text_at(row, ++c);
  const std::int64_t after = row.getInt64(++c);
  if (!means.empty())
    t.silence = {means == kSuccess ? Silence::Means::success : Silence::Means::failure, Ms{after}};
  t.by_exchange = row.getInt(++c) != 0;
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
  a.executor = text_at(row, ++c);
  return a;
}

std::span<const NewTaskColumn> new_task_columns() {
  using N = const NewTask&;
  static constexpr NewTaskColumn kColumns[] = {
      {"id", nullptr, [](N n) { return Literal::number(n.task.id.value); }},
      {"shard", nullptr, [](N n) { return Literal::number(n.task.shard); }},
      {"state", [](N n) { return n.task.state != State::scheduled; },
       [](N n) { return Literal::text(to_word(n.task.state)); }},
      {"kind", [](N n) { return n.task.kind != Kind::retry; },
       [](N n) { return Literal::text(to_word(n.task.kind)); }},
      {"next_at", [](N n) { return n.task.next_at.has_value(); },
       [](N n) { return Literal::time(n.task.next_at); }},
      {"attempt", [](N n) { return n.task.attempt != 0; },
       [](N n) { return Literal::number(n.task.attempt); }},
      {"level", [](N n) { return n.task.level != 1; }, [](N n) { return Literal::number(n.task.level); }},
      {"levels", [](N n) { return n.task.levels != 0; }, [](N n) { return Literal::number(n.task.levels); }},
      {"max_attempts", [](N n) { return n.task.max_attempts != 0; },
       [](N n) { return Literal::number(n.task.max_attempts); }},
      {"ladder", [](N n) { return !n.task.ladder.empty(); }, [](N n) { return name(n.task.ladder); }},
      {"ladder_pinned", [](N n) { return n.task.ladder_pinned; },
       [](N n) { return Literal::number(n.task.ladder_pinned ? 1 : 0); }},
      {"epoch", [](N n) { return n.task.epoch != 0; }, [](N n) { return Literal::number(n.task.epoch); }},
      {"node", [](N n) { return n.task.node != 0; }, [](N n) { return Literal::number(n.task.node); }},
      {"queue", [](N n) { return !n.task.queue.empty(); }, [](N n) { return name(n.task.queue); }},
      {"exchange", [](N n) { return !n.task.exchange.empty(); }, [](N n) { return name(n.task.exchange); }},
      {"routing_key", [](N n) { return !n.task.routing_key.empty(); },
       [](N n) { return name(n.task.routing_key); }},
      {"tag", [](N n) { return !n.task.tag.empty(); }, [](N n) { return name(n.task.tag); }},
      {"message_id", [](N n) { return !n.task.message_id.empty(); },
       [](N n) { return name(n.task.message_id); }},
      {"first_failed_at", [](N n) { return n.task.first_failed_at.ms > 0; },
       [](N n) { return Literal::time(n.task.first_failed_at); }},
      {"created_at", nullptr, [](N n) { return Literal::time(n.task.created_at); }},
      {"finished_at", [](N n) { return n.task.finished_at.has_value(); },
       [](N n) { return Literal::time(n.task.finished_at); }},
      {"finished_by", [](N n) { return n.task.finished_by != FinishedBy::nobody; },
       [](N n) { return finished_by(n.task.finished_by); }},
      {"last_error", [](N n) { return !n.task.last_error.empty(); },
       [](N n) { return clean(n.task.last_error, kErrorBytes); }},
      {"error_type", [](N n) { return !n.task.error_type.empty(); },
       [](N n) { return name(n.task.error_type); }},
      {"body_bytes", [](N n) { return n.task.body_bytes != 0; },
       [](N n) { return Literal::number(n.task.body_bytes); }},
      {"version", [](N n) { return n.task.version != 1; },
       [](N n) { return Literal::number(n.task.version); }},
      {"silence_means", [](N n) { return n.task.silence.has_value(); },
       [](N n) { return means(n.task.silence); }},
      {"silence_ms", [](N n) { return n.task.silence.has_value(); },
       [](N n) { return silence_ms(n.task.silence); }},
      {"by_exchange", [](N n) { return n.task.by_exchange; },
       [](N n) { return Literal::number(n.task.by_exchange ? 1 : 0); }},
      {"intake_key", [](N n) { return !n.intake_key.empty(); },
       [](N n) { return n.intake_key.empty() ? Literal::null() : Literal::bytes(n.intake_key); }},
  };
  return kColumns;
}

void add_task(Rows& rows, const Task& t) {
  rows.row() << Literal::number(t.id.value) << Literal::number(t.shard) << Literal::text(to_word(t.state))
             << Literal::time(t.next_at) << Literal::number(t.attempt) << Literal::number(t.level)
             << Literal::number(t.levels) << Literal::number(t.max_attempts) << name(t.ladder)
             << Literal::number(t.ladder_pinned ? 1 : 0) << Literal::number(t.epoch)
             << Literal::number(t.node) << Literal::time(t.finished_at) << finished_by(t.finished_by)
             << clean(t.last_error, kErrorBytes) << name(t.error_type) << name(t.queue) << name(t.exchange)
             << name(t.routing_key) << Literal::time(t.first_failed_at) << Literal::number(t.version)
             << Literal::number(t.by_exchange ? 1 : 0);
}

void add_attempt(Rows& rows, const Attempt& a) {
  rows.row() << Literal::number(a.task.value) << Literal::number(a.attempt) << Literal::number(a.level)
             << Literal::time(a.due_at) << Literal::time(a.published_at) << Literal::text(to_word(a.outcome))
             << Literal::time(a.outcome_at) << clean(a.error, kErrorBytes) << Literal::number(a.node)
             << name(a.executor);
}

}  // namespace rung::mysql
