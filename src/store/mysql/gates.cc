// Pauses of queues, the view retry_queues, and the values that rate_by is by.
#include "src/core/base/utf8.h"
#include "src/core/rules/rate_value.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// The columns of `pauses` and pause_lock.
Pause pause_at(const ::sql::ResultSet& row) {
  return {text_at(row, 1),   time_at(row, 2).value_or(EpochMs{}),
          time_at(row, 3),   text_at(row, 4),
          text_at(row, 5),   text_at(row, 6),
          row.getInt(7) != 0};
}

std::optional<Pause> lock_pause(Session& session, const Literal& queue) {
  auto row = session.query(render("pause_lock", {{"queue", queue}}));
  return row->next() ? std::optional(pause_at(*row)) : std::nullopt;
}

// The queue's last retry-after, as a pause.
std::optional<Pause> lock_hold(Session& session, const std::string& queue) {
  auto row = session.query(render("hold_lock", {{"queue", Literal::text(queue)}}));
  if (!row->next()) return std::nullopt;
  const auto since = time_at(*row, 1), until = time_at(*row, 2);
  if (!since || !until) return std::nullopt;
  GateState state;
  state.queue = queue;
  state.retry_after = {*since, *until, text_at(*row, 3)};
  return hold_in_force(state, EpochMs{});
}

}  // namespace

void MysqlStore::record_change(const AuditRow& change, const SystemEvent& event) {
  tables_->write_audit({&change, 1});
  write_event(*session_, event);
}

Result<Pause> MysqlStore::pause(const NewPause& asked) {
  NewPause request = asked;
  request.who = clean_utf8(asked.who, 255);
  return session_->transaction_for([&] {
    const Literal queue = Literal::text(request.queue);
    const auto before = lock_pause(*session_, queue);
    const EpochMs now = session_->now();
    const auto after = paused(before, request, now);
    if (!after) return *before;
    session_->exec(render("pause_write", {{"queue", queue},
                                          {"since", Literal::time(after->since)},
                                          {"until", Literal::time(after->until)},
                                          {"who", Literal::text(after->who)},
                                          {"reason", Literal::text(after->reason)}}));
    session_->exec(render("pauses_forget", {{"before", Literal::time(now - kPausesKept)}}));
    record_change(audit_of(before, *after, after->reason, now), event_of(*after, after->reason));
    return *after;
  });
}

Result<Resumed> MysqlStore::resume(const std::string& name, const std::string& by,
                                   const std::string& reason) {
  const std::string who = clean_utf8(by, 255);
  return session_->transaction_for([&] {
    const Literal queue = Literal::text(name);
    const auto before = lock_pause(*session_, queue);
    const auto hold = lock_hold(*session_, name);
    const EpochMs now = session_->now();
    const Place until{"until", Literal::time(now)};
    Resumed ended{resumed(before, who, now),
                  hold && *hold->until > now ? resumed(hold, who, now) : std::nullopt};
    if (ended.pause) {
      session_->exec(render("pause_end", {{"queue", queue}, until, {"who", Literal::text(who)}}));
      record_change(audit_of(before, *ended.pause, reason, now), event_of(*ended.pause, reason));
    }
    if (ended.retry_after) {
      session_->exec(render("hold_end", {{"queue", queue}, until}));
      record_change(audit_of(hold, *ended.retry_after, reason, now), event_of(*ended.retry_after, reason));
    }
    return ended;
  });
}

Result<std::vector<Pause>> MysqlStore::pauses(EpochMs changed_since) {
  return session_->run_for([&] {
    std::vector<Pause> out;
    auto row = session_->query(render("pauses", {{"since", Literal::time(changed_since)}}));
    while (row->next()) out.push_back(pause_at(*row));
    return out;
  });
}

Result<std::vector<QueueGate>> MysqlStore::queue_gates() {
  return session_->run_for([&] {
    std::vector<QueueGate> out;
    auto row = session_->query(render("queue_gates"));
    while (row->next()) {
      out.push_back({text_at(*row, 1), text_at(*row, 2), time_at(*row, 3), time_at(*row, 4), text_at(*row, 5),
                     text_at(*row, 6), row->getInt64(7), time_at(*row, 8)});
    }
    return out;
  });
}

Result<std::map<TaskId, std::string>> MysqlStore::header_values(std::span<const TaskId> ids,
                                                                const std::string& header) {
  return session_->run_for([&] {
    std::map<TaskId, std::string> out;
    if (ids.empty()) return out;
    auto row = session_->query(render("rule_headers", {{"ids", Literal::ids(ids)}}));
    while (row->next())
      out.emplace(TaskId{row->getInt64(1)}, rate_value(rule_headers_from(text_at(*row, 2)), header));
    return out;
  });
}

}  // namespace rung::mysql
