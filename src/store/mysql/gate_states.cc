// What instances share about the gates of queues: breakers, notes for people.
#include "src/core/utf8.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kReasonBytes = 1000;

std::optional<GateState::Hold> hold_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const auto since = time_at(row, column), until = time_at(row, column + 1);
  if (!since || !until) return std::nullopt;
  return GateState::Hold{*since, *until, text_at(row, column + 2)};
}

// The columns of gate_states and gate_lock.
GateState state_at(const ::sql::ResultSet& row) {
  GateState state;
  state.queue = text_at(row, 1);
  state.breaker.state = breaker_state_from(text_at(row, 2)).value_or(Breaker::State::closed);
  state.breaker.since = time_at(row, 3).value_or(EpochMs{});
  state.breaker.until = time_at(row, 4);
  state.breaker.reason = text_at(row, 5);
  read_detail(state.breaker, text_at(row, 6));
  state.retry_after = hold_at(row, 7);
  state.outside = hold_at(row, 10);
  state.limited = hold_at(row, 13);
  state.seen_at = time_at(row, 16).value_or(EpochMs{});
  return state;
}

GateState lock_state(Session& session, const Literal& queue) {
  auto row = session.query(render("gate_lock", {{"queue", queue}}));
  if (!row->next()) {
    session.exec(render("gate_create", {{"queue", queue}}));
    row = session.query(render("gate_lock", {{"queue", queue}}));
    if (!row->next()) throw Again{"the row of the queue's gates is missing"};
  }
  return state_at(*row);
}

Literal since(const std::optional<GateState::Hold>& hold) {
  return hold ? Literal::time(hold->since) : Literal::null();
}
Literal until(const std::optional<GateState::Hold>& hold) {
  return hold ? Literal::time(hold->until) : Literal::null();
}
Literal reason(const std::optional<GateState::Hold>& hold) {
  return Literal::text(hold ? clean_utf8(hold->reason, 255) : "");
}

void record(Session& session, const SystemEvent& event) {
  session.exec(render("event_insert", {{"node", Literal::number(0)},
                                       {"kind", Literal::text(event.kind)},
                                       {"subject", Literal::text(event.subject)},
                                       {"detail", Literal::text(clean_utf8(event.detail, kReasonBytes))}}));
}

void write_state(Session& session, const Literal& queue, const GateState& state) {
  const Breaker& breaker = state.breaker;
  const Literal opened = breaker.since.ms == 0 ? Literal::null() : Literal::time(breaker.since);
  session.exec(
      render("gate_write", {{"queue", queue},
                            {"breaker", Literal::text(to_word(breaker.state))},
                            {"breaker_since", opened},
                            {"breaker_until", Literal::time(breaker.until)},
                            {"breaker_reason", Literal::text(clean_utf8(breaker.reason, kReasonBytes))},
                            {"breaker_detail", Literal::text(detail_json(breaker))},
                            {"hold_since", since(state.retry_after)},
                            {"hold_until", until(state.retry_after)},
                            {"hold_by", reason(state.retry_after)},
                            {"outside_since", since(state.outside)},
                            {"outside_until", until(state.outside)},
                            {"outside_reason", reason(state.outside)},
                            {"limited_since", since(state.limited)},
                            {"limited_until", until(state.limited)},
                            {"limited_reason", reason(state.limited)},
                            {"seen_at", Literal::time(state.seen_at)}}));
}

}  // namespace

Result<std::vector<GateState>> MysqlStore::gate_states() {
  return session_->run_for([&] {
    std::vector<GateState> out;
    auto row = session_->query(render("gate_states"));
    while (row->next()) out.push_back(state_at(*row));
    return out;
  });
}

Result<GateState> MysqlStore::change_gate(const std::string& name, const GateChange& change) {
  return session_->transaction_for([&] {
    const Literal queue = Literal::text(name);
    const GateState before = lock_state(*session_, queue);
    GateState state = before;
    const auto events = change(state, session_->now());
    if (!(state == before)) write_state(*session_, queue, state);
    for (const SystemEvent& event : events) record(*session_, event);
    return state;
  });
}

Result<void> MysqlStore::forget_gates(EpochMs before) {
  return session_->run([&] { session_->exec(render("gates_forget", {{"before", Literal::time(before)}})); });
}

}  // namespace rung::mysql
