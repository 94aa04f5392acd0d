// Pauses of queues, what instances share about gates (breakers, notes for people), and the values that
// rate_by is by.
#include <algorithm>
#include <iterator>
#include <map>

#include "src/core/base/result.h"
#include "src/core/base/utf8.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kReasonBytes = 1000;

std::optional<GateState::Hold> hold_from(Fields& row) {
  std::optional<EpochMs> since, until;
  std::string reason;
  row >> since >> until >> reason;
  if (!since || !until) return std::nullopt;
  return GateState::Hold{*since, *until, reason};
}

// The columns of gate_states.
GateState state_at(const ::sql::ResultSet& row) {
  GateState state;
  Breaker& breaker = state.breaker;
  std::string word, detail;
  Fields fields(row);
  fields >> state.queue >> word >> breaker.since >> breaker.until >> breaker.reason >> detail;
  const auto known = from_word<Breaker::State>(word);
  breaker.state = known.value_or(Breaker::State::closed);
  const bool whole = read_detail(breaker, detail);
  // The columns apply, so that a breaker that is open remains it.
  if (is_closed_gate(breaker) && breaker.opened_at.ms == 0) breaker.opened_at = breaker.since;
  state.retry_after = hold_from(fields);
  state.outside = hold_from(fields);
  state.limited = hold_from(fields);
  state.damaged = !whole || !known;
  fields >> state.seen_at;
  return state;
}

using States = std::map<std::string, GateState>;  // by queue

// With their rows locked: all in one statement, in one order, so that two batches don't deadlock.
States lock_existing(Session& session, std::span<const std::string> queues) {
  States out;
  const Sql lock = render("gate_states") + render("gate_states.lock", {{"queues", queues}});
  for (GateState& state : session.all(lock, state_at)) out[state.queue] = std::move(state);
  return out;
}

States lock_states(Session& session, std::span<const std::string> queues, EpochMs now) {
  States out = lock_existing(session, queues);
  Rows missing;
  for (const std::string& queue : queues) {
    if (out.contains(queue)) continue;
    missing.row() << queue_key(Sql::of(queue)) << ""
                  << "" << now;
  }
  if (missing.count() == 0) return out;
  session.exec(render("gates_create", {{"rows", missing.done()}}));
  out = lock_existing(session, queues);
  for (const std::string& queue : queues) {
    if (!out.contains(queue)) throw Again{"the row of a queue's gates is missing"};
  }
  return out;
}

void write_states(Session& session, std::span<const GateState> states) {
  Rows rows;
  for (const GateState& state : states) {
    const Breaker& breaker = state.breaker;
    rows.row() << queue_key(Sql::of(state.queue)) << breaker.state
               << (breaker.since.ms == 0 ? Sql::null() : Sql::of(breaker.since)) << breaker.until
               << clean_utf8(breaker.reason, kReasonBytes) << detail_json(breaker);
    for (const auto& hold : {state.retry_after, state.outside, state.limited}) {
      rows << (hold ? Sql::of(hold->since) : Sql::null()) << (hold ? Sql::of(hold->until) : Sql::null())
           << (hold ? clean_utf8(hold->reason, 255) : "");
    }
    rows << state.seen_at;
  }
  if (rows.count() > 0) session.exec(render("gates_write", {{"rows", rows.done()}}));
}

// The columns of `pauses`.
constexpr auto pause_at = row_of(&Pause::queue, &Pause::since, &Pause::until, &Pause::who, &Pause::reason,
                                 &Pause::resumed_by, &Pause::over);

std::optional<Pause> lock_pause(Session& session, const std::string& queue) {
  return session.first(render("pauses") + render("pauses.lock", {{"queue", queue}}), pause_at);
}

void write_pause(Session& session, const Pause& pause) {
  session.exec(render("pause_write", {{"queue", pause.queue},
                                      {"since", pause.since},
                                      {"until", pause.until},
                                      {"who", pause.who},
                                      {"reason", pause.reason},
                                      {"resumed_by", pause.resumed_by}}));
}

}  // namespace

std::vector<GateState> MysqlStore::gate_states(EpochMs changed_since) {
  return session_->all(render("gate_states") + render("gates.changed", {{"since", changed_since}}), state_at);
}

std::vector<GateState> MysqlStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  if (batch.queues.empty()) return {};
  return session_->transaction(
      [&] {
        const bool again = !batch.id.empty() && is_repeated(*session_, "gates", batch.maker, batch.id);
        const EpochMs now = session_->now();
        auto states = lock_states(*session_, batch.queues, now);
        std::vector<GateState> out, changed;
        std::vector<SystemEvent> events;
        for (const std::string& queue : batch.queues) {
          GateState& state = states.at(queue);
          const GateState before = state;
          if (!again) std::ranges::move(batch.change(state, now), std::back_inserter(events));
          if (!(state == before)) {
            state.damaged = false;
            changed.push_back(state);
          }
          out.push_back(state);
        }
        write_states(*session_, changed);
        for (const SystemEvent& event : events) write_event(*session_, event);
        return out;
      },
      "gates");
}

void MysqlStore::record_change(const AuditRow& change, const SystemEvent& event) {
  write_audit({&change, 1});
  write_event(*session_, event);
}

Pause MysqlStore::pause(const NewPause& asked) {
  NewPause request = asked;
  request.who = clean_utf8(asked.who, 255);
  return session_->transaction([&] {
    const auto before = lock_pause(*session_, request.queue);
    const EpochMs now = session_->now();
    const auto after = paused(before, request, now);
    if (!after) return *before;
    write_pause(*session_, *after);
    session_->exec(render("pauses_forget", {{"before", now - kPausesKept}}));
    record_change(audit_of(before, *after, after->reason, now), event_of(*after, after->reason));
    return *after;
  });
}

Resumed MysqlStore::resume(const std::string& queue, const std::string& by, const std::string& reason) {
  const std::string who = clean_utf8(by, 255);
  return session_->transaction([&] {
    const auto before = lock_pause(*session_, queue);
    States states = lock_existing(*session_, {&queue, 1});
    const EpochMs now = session_->now();
    const auto hold = hold_in_force(states[queue], now);
    const Resumed ended{resumed(before, who, now), resumed(hold, who, now)};
    if (ended.pause) {
      write_pause(*session_, *ended.pause);
      record_change(audit_of(before, *ended.pause, reason, now), event_of(*ended.pause, reason));
    }
    if (ended.retry_after) {
      session_->exec(render("hold_end", {{"queue", queue}, {"until", now}}));
      record_change(audit_of(hold, *ended.retry_after, reason, now), event_of(*ended.retry_after, reason));
    }
    return ended;
  });
}

std::vector<Pause> MysqlStore::pauses(EpochMs changed_since) {
  return session_->all(render("pauses") + render("gates.changed", {{"since", changed_since}}), pause_at);
}

std::map<TaskId, std::string> MysqlStore::header_values(std::span<const TaskId> ids,
                                                        const std::string& header) {
  std::map<TaskId, std::string> out;
  if (ids.empty()) return out;
  const Sql headers = render("rule_headers", {{"ids", ids}});
  for (const auto& [id, text] : session_->rows<TaskId, std::string>(headers))
    out.emplace(id, rule_headers_from(text)[header]);
  return out;
}

}  // namespace rung::mysql
