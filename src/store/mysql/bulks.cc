// Bulks and the audit.
#include <algorithm>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

// Ids frozen per statement, which must end well within the read timeout.
constexpr std::int64_t kFrozenAtOnce = 20'000;

Bulk bulk_at(const ::sql::ResultSet& row) {
  Bulk b;
  std::string action, state;
  Fields(row) >> b.id >> action >> state >> b.filter_text >> b.reason >> b.elsewhere.queue >>
      b.elsewhere.exchange >> b.elsewhere.routing_key >> b.rate >> b.who >> b.total >> b.done >> b.applied >>
      b.refused >> b.created_at >> b.finished_at >> b.runner >> b.last >> b.even_reported >> b.care.canary >>
      b.care.watch >> b.care.ramp >> b.care.stop_above >> b.canary_done >> b.stopped_because >>
      b.changed_at >> b.changed_by >> b.changed_because;
  b.action = from_word<BulkAction>(action).value();
  b.state = from_word<BulkState>(state).value_or(BulkState::paused);
  return b;
}

// Inside a transaction.
void write_ended(Session& session, const Bulk& bulk) {
  if (!has_ended(bulk)) return;
  write_event(session, {"bulk_ended", std::to_string(bulk.id), describe_end(bulk)});
}

// The condition that the runner of the step still owns its bulk, and nobody else has done the step.
Sql if_ours(const BulkStep& step) {
  return render("bulk.if_ours", {{"bulk", step.bulk}, {"runner", step.runner}, {"from", step.from}});
}

std::optional<Bulk> read_bulk(Session& session, std::int64_t id) {
  return session.first(render("bulks") + equals("id", id), bulk_at);
}

// Inside a transaction: stores the ids that match, at most `most`; returns how many. `also`: a further
// condition.
std::int64_t freeze(Session& session, std::int64_t bulk, const Filter& filter, const Sql& also,
                    std::int64_t most) {
  std::int64_t total = 0, after = 0;
  while (total < most) {
    const std::int64_t wanted = std::min(kFrozenAtOnce, most - total);
    const std::int64_t page =
        session.exec(render("bulk_freeze", {{"bulk", bulk}, {"after", after}}) + conditions(filter) + also +
                     render("bulk_freeze.end", {{"limit", wanted}}));
    total += page;
    if (page < wanted) break;
    after = session.number(render("bulk_frozen_to", {{"bulk", bulk}}));
  }
  return total;
}

}  // namespace

Bulk MysqlStore::create_bulk(const NewBulk& asked) {
  const Filter filter = of_bulk(asked);
  check(filter);
  return session_->transaction(
      [&] {
        if (asked.action == BulkAction::redrive) session_->exec(render("bulk_redrives_in_turn"));
        session_->exec(
            render("bulk_insert", {{"action", asked.action},
                                   {"state", asked.paused ? BulkState::paused : BulkState::running},
                                   {"filter", asked.filter_text},
                                   {"reason", asked.reason},
                                   {"queue", asked.elsewhere.queue},
                                   {"exchange", asked.elsewhere.exchange},
                                   {"routing_key", asked.elsewhere.routing_key},
                                   {"even_reported", asked.even_reported},
                                   {"rate", asked.rate},
                                   {"canary", asked.care.canary},
                                   {"watch_ms", asked.care.watch},
                                   {"ramp", asked.care.ramp},
                                   {"stop_above", asked.care.stop_above},
                                   {"who", asked.who}}));
        const std::int64_t bulk = session_->number(render("bulk_id"));
        const std::int64_t most = asked.limit > 0 ? asked.limit : std::numeric_limits<std::int64_t>::max();
        const Sql also = asked.action == BulkAction::redrive
                             ? render("bulk_freeze.no_other_redrive", {{"bulk", bulk}})
                             : Sql();
        const std::int64_t total = freeze(*session_, bulk, filter, also, most);
        session_->exec(render("bulk_total", {{"bulk", bulk}, {"total", total}}));
        const Bulk created = read_bulk(*session_, bulk).value();
        const AuditRow action = audit_of_new(created);
        if (total > 0) write_audit({&action, 1});
        return created;
      },
      "bulk");
}

std::optional<Bulk> MysqlStore::bulk(std::int64_t id) { return read_bulk(*session_, id); }

std::vector<Bulk> MysqlStore::bulks(int limit, std::optional<std::int64_t> below) {
  const Sql from =
      below ? render("list.before", {{"column", Sql::identifier("id")}, {"value", *below}}) : Sql();
  return session_->all(render("bulks") + from + render("list.end", {{"limit", limit}}), bulk_at);
}

std::optional<Bulk> MysqlStore::set_bulk(const BulkControl& control) {
  return session_->transaction([&]() -> std::optional<Bulk> {
    const auto before = read_bulk(*session_, control.id);
    if (!before) return std::nullopt;
    const auto set =
        session_->exec(render("bulk_set", {{"bulk", control.id},
                                           {"state", control.state},
                                           {"rate", control.rate},
                                           {"who", clean_utf8(control.who, 255)},
                                           {"reason", clean_utf8(control.reason, kErrorBytes)}}));
    Bulk after = read_bulk(*session_, control.id).value();
    if (set != 1) return after;
    if (before->state != after.state || control.rate)
      record_change(audit_of_change(after), event_of_change(after));
    write_ended(*session_, after);
    return after;
  });
}

std::optional<Bulk> MysqlStore::take_bulk(const std::string& runner, Ms ttl) {
  const Sql free = render("bulk_due.free", {{"runner", runner}});
  // Mostly there is none: one statement instead of a transaction. Another process may be quicker.
  const auto due = session_->number(render("bulk_due") + free + render("bulk_due.end"));
  if (due == 0) return std::nullopt;
  return session_->transaction([&]() -> std::optional<Bulk> {
    const auto taken = session_->exec(
        render("bulk_take", {{"bulk", due}, {"runner", runner}, {"ttl_us", micros(ttl)}}) + free);
    return taken == 0 ? std::nullopt : read_bulk(*session_, due);  // 0: another process was quicker
  });
}

std::vector<TaskId> MysqlStore::bulk_next(const BulkStep& step, int limit) {
  auto next =
      session_->all(render("bulk_next", {{"bulk", step.bulk}, {"from", step.from}, {"limit", limit}}), id_at);
  if (!next.empty()) return next;
  session_->transaction([&] {
    const auto through = session_->exec(render("bulk_through") + if_ours(step));
    if (through == 1) write_ended(*session_, read_bulk(*session_, step.bulk).value());
  });
  return next;
}

bool MysqlStore::step_bulk(const BulkStep& step, const BulkStepCounts& counts) {
  return session_->exec(render("bulk_step", {{"rate", step.rate},
                                             {"last", counts.last},
                                             {"done", counts.done},
                                             {"applied", counts.applied},
                                             {"refused", counts.refused}}) +
                        if_ours(step)) == 1;
}

void MysqlStore::keep_sent(const BulkStep& step, std::span<const TaskId> changed) {
  session_->later(render("bulk_items_changed", {{"bulk", step.bulk}, {"ids", changed}}));
}

std::vector<SentTask> MysqlStore::sent_by_bulk(std::int64_t id, int limit) {
  auto sent = session_->all(
      render("bulk_sent", {{"bulk", id}, {"limit", limit}}),
      row_of(&SentTask::id, &SentTask::queue, &SentTask::state, &SentTask::held, &SentTask::silence,
             &SentTask::outcome, &SentTask::published_at, &SentTask::error));
  std::erase_if(sent, [](const SentTask& task) { return task.state == State::unknown; });
  return sent;
}

void MysqlStore::judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) {
  session_->transaction([&] {
    using Go = BulkVerdict::Go;
    const Sql ours = if_ours(step);
    if (verdict.go == Go::wait) session_->exec(render("bulk_wait", {{"pause_us", micros(pause)}}) + ours);
    if (verdict.go == Go::passed) session_->exec(render("bulk_canary_passed") + ours);
    if (verdict.go != Go::stop) return;
    if (session_->exec(render("bulk_stop", {{"why", verdict.why}}) + ours) != 1) return;
    write_event(*session_, {"bulk_stopped", std::to_string(step.bulk), verdict.why});
    write_ended(*session_, read_bulk(*session_, step.bulk).value());
  });
}

}  // namespace rung::mysql
