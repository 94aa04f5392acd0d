// Pauses of queues, and the view retry_queues.
#include "src/core/utf8.h"
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

void record(Session& session, const AuditRow& audit, const SystemEvent& event) {
  Rows rows;
  rows.row() << Literal::time(audit.at) << Literal::text(audit.who) << Literal::text(audit.what)
             << Literal::number(audit.task.value) << Literal::text(audit.before) << Literal::text(audit.after)
             << Literal::text(audit.reason) << Literal::number(audit.bulk);
  session.exec(render("write_audit", {{"rows", rows.done()}}));
  session.exec(render("event_insert", {{"node", Literal::number(0)},
                                       {"kind", Literal::text(event.kind)},
                                       {"subject", Literal::text(event.subject)},
                                       {"detail", Literal::text(event.detail)}}));
}

}  // namespace

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
    record(*session_, audit_of(before, *after, after->reason, now), event_of(*after, after->reason));
    return *after;
  });
}

Result<std::optional<Pause>> MysqlStore::resume(const std::string& name, const std::string& by,
                                                const std::string& reason) {
  const std::string who = clean_utf8(by, 255);
  return session_->transaction_for([&] {
    const Literal queue = Literal::text(name);
    const auto before = lock_pause(*session_, queue);
    const EpochMs now = session_->now();
    auto after = resumed(before, who, now);
    if (!after) return after;
    session_->exec(
        render("pause_end", {{"queue", queue}, {"until", Literal::time(now)}, {"who", Literal::text(who)}}));
    record(*session_, audit_of(before, *after, reason, now), event_of(*after, reason));
    return after;
  });
}

Result<std::vector<Pause>> MysqlStore::pauses() {
  return session_->run_for([&] {
    std::vector<Pause> out;
    auto row = session_->query(render("pauses"));
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

}  // namespace rung::mysql
