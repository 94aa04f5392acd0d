// Bulks and the audit.
#include <algorithm>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// Ids frozen per statement, which must end well within the read timeout.
constexpr std::int64_t kFrozenAtOnce = 20'000;

// None for an action that a later version added: we would mistake it for another.
std::optional<Bulk> bulk_at(const ::sql::ResultSet& row) {
  Bulk b;
  std::uint32_t c = 0;
  b.id = row.getInt64(++c);
  const auto action = bulk_action_from(text_at(row, ++c));
  if (!action) return std::nullopt;
  b.action = *action;
  b.state = bulk_state_from(text_at(row, ++c)).value_or(BulkState::paused);
  b.filter_text = text_at(row, ++c);
  b.reason = text_at(row, ++c);
  b.elsewhere.queue = text_at(row, ++c);
  b.elsewhere.exchange = text_at(row, ++c);
  b.elsewhere.routing_key = text_at(row, ++c);
  b.rate = static_cast<double>(row.getDouble(++c));
  b.who = text_at(row, ++c);
  b.total = row.getInt64(++c);
  b.done = row.getInt64(++c);
  b.applied = row.getInt64(++c);
  b.refused = row.getInt64(++c);
  b.created_at = time_at(row, ++c).value_or(EpochMs{});
  b.finished_at = time_at(row, ++c);
  b.runner = text_at(row, ++c);
  b.last = {row.getInt64(++c)};
  b.even_reported = row.getInt(++c) != 0;
  b.care.canary = row.getInt64(++c);
  if (!row.isNull(++c)) b.care.watch = Ms{row.getInt64(c)};
  b.care.ramp = row.getInt(++c) != 0;
  if (!row.isNull(++c)) b.care.stop_above = static_cast<double>(row.getDouble(c));
  if (!row.isNull(++c)) b.canary_done = row.getInt64(c);
  b.stopped_because = text_at(row, ++c);
  b.changed_at = time_at(row, ++c);
  b.changed_by = text_at(row, ++c);
  b.changed_because = text_at(row, ++c);
  return b;
}

// Inside a transaction.
void write_ended(Session& session, const Bulk& bulk) {
  if (!has_ended(bulk)) return;
  write_event(session, {"bulk_ended", std::to_string(bulk.id), describe_end(bulk)});
}

std::vector<Bulk> read_bulks(Session& session, const std::string& sql) {
  std::vector<Bulk> out;
  for (auto& bulk : session.all(sql, bulk_at)) {
    if (bulk) out.push_back(*std::move(bulk));
  }
  return out;
}

std::optional<Bulk> read_bulk(Session& session, std::int64_t id) {
  const auto found =
      read_bulks(session, render("bulks") + ' ' + render("bulks.id", {{"bulk", Literal::number(id)}}));
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

// Inside a transaction: stores the ids that match, at most `most`; returns how many. `also`: a further
// condition.
std::int64_t freeze(Session& session, const Literal& bulk, const Filter& filter, const std::string& also,
                    std::int64_t most) {
  std::int64_t total = 0, after = 0;
  while (total < most) {
    const std::int64_t wanted = std::min(kFrozenAtOnce, most - total);
    const std::int64_t page = session.exec(
        render("bulk_freeze", {{"bulk", bulk}, {"after", Literal::number(after)}}) + conditions(filter) +
        also + ' ' + render("bulk_freeze.end", {{"limit", Literal::number(wanted)}}));
    total += page;
    if (page < wanted) break;
    auto last = session.query(render("bulk_frozen_to", {{"bulk", bulk}}));
    after = last->next() ? last->getInt64(1) : 0;
  }
  return total;
}

}  // namespace

Result<Bulk> MysqlStore::create_bulk(const NewBulk& asked) {
  const Filter filter = of_bulk(asked);
  if (auto good = check(filter); !good) return tl::unexpected(good.error());
  return session_->transaction_for(
      [&] {
        if (asked.action == BulkAction::redrive) session_->exec(render("bulk_redrives_in_turn"));
        session_->exec(render(
            "bulk_insert",
            {{"action", Literal::text(to_word(asked.action))},
             {"state", Literal::text(to_word(asked.paused ? BulkState::paused : BulkState::running))},
             {"filter", Literal::text(asked.filter_text)},
             {"reason", Literal::text(asked.reason)},
             {"queue", Literal::text(asked.elsewhere.queue)},
             {"exchange", Literal::text(asked.elsewhere.exchange)},
             {"routing_key", Literal::text(asked.elsewhere.routing_key)},
             {"even_reported", Literal::number(asked.even_reported ? 1 : 0)},
             {"rate", Literal::decimal(asked.rate)},
             {"canary", Literal::number(asked.care.canary)},
             {"watch_ms", asked.care.watch ? Literal::number(asked.care.watch->count()) : Literal::null()},
             {"ramp", Literal::number(asked.care.ramp ? 1 : 0)},
             {"stop_above",
              asked.care.stop_above ? Literal::decimal(*asked.care.stop_above) : Literal::null()},
             {"who", Literal::text(asked.who)}}));
        auto made = session_->query(render("bulk_id"));
        made->next();
        const std::int64_t id = made->getInt64(1);
        const Literal bulk = Literal::number(id);
        const std::int64_t most = asked.limit > 0 ? asked.limit : std::numeric_limits<std::int64_t>::max();
        const std::string also = asked.action == BulkAction::redrive
                                     ? ' ' + render("bulk_freeze.no_other_redrive", {{"bulk", bulk}})
                                     : "";
        const std::int64_t total = freeze(*session_, bulk, filter, also, most);
        session_->exec(render("bulk_total", {{"bulk", bulk}, {"total", Literal::number(total)}}));
        const Bulk created = read_bulk(*session_, id).value();
        const AuditRow action = audit_of_new(created);
        if (total > 0) tables_->write_audit({&action, 1});
        return created;
      },
      "bulk");
}

Result<std::optional<Bulk>> MysqlStore::bulk(std::int64_t id) {
  return session_->run_for([&] { return read_bulk(*session_, id); });
}

Result<std::vector<Bulk>> MysqlStore::bulks(int limit, std::optional<std::int64_t> below) {
  return session_->run_for([&] {
    const std::string from = below ? ' ' + render("bulks.below", {{"bulk", Literal::number(*below)}}) : "";
    return read_bulks(
        *session_, render("bulks") + from + ' ' + render("bulks.end", {{"limit", Literal::number(limit)}}));
  });
}

Result<std::optional<Bulk>> MysqlStore::set_bulk(const BulkControl& control) {
  return session_->transaction_for([&]() -> std::optional<Bulk> {
    const auto before = read_bulk(*session_, control.id);
    if (!before) return std::nullopt;
    const auto set = session_->exec(
        render("bulk_set", {{"bulk", Literal::number(control.id)},
                            {"state", Literal::text(to_word(control.state))},
                            {"rate", control.rate ? Literal::decimal(*control.rate) : Literal::null()},
                            {"who", Literal::text(clean_utf8(control.who, 255))},
                            {"reason", Literal::text(clean_utf8(control.reason, kErrorBytes))}}));
    Bulk after = read_bulk(*session_, control.id).value();
    if (set != 1) return after;
    if (before->state != after.state || control.rate)
      record_change(audit_of_change(after), event_of_change(after));
    write_ended(*session_, after);
    return after;
  });
}

Result<std::optional<Bulk>> MysqlStore::take_bulk(const std::string& runner, Ms ttl,
                                                  std::optional<std::int64_t> only) {
  const Literal name = Literal::text(runner);
  const std::string free = ' ' + render("bulk_due.free", {{"runner", name}});
  const std::string which =
      only ? ' ' + render("bulks.id", {{"bulk", Literal::number(*only)}}) : std::string();
  // Mostly there is none: one statement instead of a transaction. Another process may be quicker.
  const auto due = session_->read_all(render("bulk_due") + free + which + ' ' + render("bulk_due.end"),
                                      [](const ::sql::ResultSet& row) { return row.getInt64(1); });
  if (!due) return tl::unexpected(due.error());
  if (due->empty()) return std::optional<Bulk>();
  const std::int64_t id = due->front();
  return session_->transaction_for([&]() -> std::optional<Bulk> {
    const auto taken = session_->exec(render("bulk_take", {{"bulk", Literal::number(id)},
                                                           {"runner", name},
                                                           {"ttl_us", Literal::number(ttl.count() * 1000)}}) +
                                      free);
    return taken == 0 ? std::nullopt : read_bulk(*session_, id);  // 0: another process was quicker
  });
}

Result<std::vector<TaskId>> MysqlStore::bulk_next(const BulkStep& step, int limit) {
  const Literal bulk = Literal::number(step.bulk), from = Literal::number(step.from.value);
  auto next = session_->read_all(
      render("bulk_next", {{"bulk", bulk}, {"from", from}, {"limit", Literal::number(limit)}}), id_at);
  if (!next || !next->empty()) return next;
  auto ended = session_->transaction([&] {
    const auto through = session_->exec(
        render("bulk_through", {{"bulk", bulk}, {"from", from}, {"runner", Literal::text(step.runner)}}));
    if (through == 1) write_ended(*session_, read_bulk(*session_, step.bulk).value());
  });
  if (!ended) return tl::unexpected(ended.error());
  return next;
}

Result<std::vector<SentTask>> MysqlStore::sent_by_bulk(std::int64_t id, int limit) {
  return session_->run_for([&] {
    std::vector<SentTask> out;
    auto row = session_->query(
        render("bulk_sent", {{"bulk", Literal::number(id)}, {"limit", Literal::number(limit)}}));
    while (row->next()) {
      SentTask sent;
      std::uint32_t c = 0;
      sent.id = {row->getInt64(++c)};
      sent.queue = text_at(*row, ++c);
      const auto state = state_from(text_at(*row, ++c));
      if (!state) continue;  // of a later version
      sent.state = *state;
      sent.held = !time_at(*row, ++c) && sent.state == State::awaiting;
      sent.silence = silence_at(*row, ++c);
      sent.outcome = outcome_from(text_at(*row, ++(++c))).value_or(Outcome::pending);
      sent.published_at = time_at(*row, ++c);
      sent.error = text_at(*row, ++c);
      out.push_back(std::move(sent));
    }
    return out;
  });
}

Result<void> MysqlStore::judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) {
  const Literal bulk = Literal::number(step.bulk), runner = Literal::text(step.runner),
                from = Literal::number(step.from.value);
  return session_->transaction([&] {
    using Go = BulkVerdict::Go;
    if (verdict.go == Go::wait) {
      session_->exec(render("bulk_wait", {{"bulk", bulk},
                                          {"runner", runner},
                                          {"from", from},
                                          {"pause_us", Literal::number(pause.count() * 1000)}}));
    }
    if (verdict.go == Go::passed)
      session_->exec(render("bulk_canary_passed", {{"bulk", bulk}, {"runner", runner}, {"from", from}}));
    if (verdict.go != Go::stop) return;
    const auto stopped = session_->exec(
        render("bulk_stop",
               {{"bulk", bulk}, {"runner", runner}, {"from", from}, {"why", Literal::text(verdict.why)}}));
    if (stopped != 1) return;
    write_event(*session_, {"bulk_stopped", std::to_string(step.bulk), verdict.why});
    write_ended(*session_, read_bulk(*session_, step.bulk).value());
  });
}

}  // namespace rung::mysql
