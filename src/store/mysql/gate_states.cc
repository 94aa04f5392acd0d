// What instances share about the gates of queues: breakers, notes for people.
#include <algorithm>
#include <iterator>
#include <map>

#include "src/core/base/require.h"
#include "src/core/base/utf8.h"
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

// The columns of gate_states and gates_lock.
GateState state_at(const ::sql::ResultSet& row) {
  GateState state;
  state.queue = text_at(row, 1);
  Breaker& breaker = state.breaker;
  const auto word = breaker_state_from(text_at(row, 2));
  breaker.state = word.value_or(Breaker::State::closed);
  breaker.since = time_at(row, 3).value_or(EpochMs{});
  breaker.until = time_at(row, 4);
  breaker.reason = text_at(row, 5);
  const bool whole = read_detail(breaker, text_at(row, 6));
  // The columns apply, so that a breaker that is open remains it.
  if (is_closed_gate(breaker) && breaker.opened_at.ms == 0) breaker.opened_at = breaker.since;
  state.retry_after = hold_at(row, 7);
  state.outside = hold_at(row, 10);
  state.limited = hold_at(row, 13);
  state.damaged = !whole || !word;
  state.seen_at = time_at(row, 16).value_or(EpochMs{});
  return state;
}

// By queue, with their rows locked: all in one statement, in one order, so that two batches don't deadlock.
std::map<std::string, GateState> lock_states(Session& session, std::span<const std::string> queues,
                                             EpochMs at) {
  const Literal now = Literal::time(at);
  std::map<std::string, GateState> out;
  const std::string lock = render("gates_lock", {{"queues", Literal::texts(queues)}});
  const auto read = [&] {
    auto row = session.query(lock);
    while (row->next()) {
      GateState state = state_at(*row);
      out[state.queue] = std::move(state);
    }
  };
  read();
  Rows missing;
  for (const std::string& queue : queues) {
    if (out.contains(queue)) continue;
    const Literal name = Literal::text(queue);
    missing.row() << name << length_of(name) << Literal::text("") << Literal::text("") << now;
  }
  if (missing.count() == 0) return out;
  session.exec(render("gates_create", {{"rows", missing.done()}}));
  read();
  for (const std::string& queue : queues) {
    if (!out.contains(queue)) throw Again{"the row of a queue's gates is missing"};
  }
  return out;
}

void record(Session& session, std::span<const SystemEvent> events, EpochMs now) {
  Rows rows;
  for (const SystemEvent& event : events) {
    rows.row() << Literal::time(now) << Literal::number(0) << Literal::text(event.kind)
               << Literal::text(event.subject) << Literal::text(clean_utf8(event.detail, kReasonBytes));
  }
  if (rows.count() > 0) session.exec(render("events_insert", {{"rows", rows.done()}}));
}

void write_states(Session& session, std::span<const GateState> states) {
  Rows rows;
  for (const GateState& state : states) {
    const Breaker& breaker = state.breaker;
    const Literal queue = Literal::text(state.queue);
    rows.row() << queue << length_of(queue) << Literal::text(to_word(breaker.state))
               << (breaker.since.ms == 0 ? Literal::null() : Literal::time(breaker.since))
               << Literal::time(breaker.until) << Literal::text(clean_utf8(breaker.reason, kReasonBytes))
               << Literal::text(detail_json(breaker));
    for (const auto& hold : {state.retry_after, state.outside, state.limited}) {
      rows << (hold ? Literal::time(hold->since) : Literal::null())
           << (hold ? Literal::time(hold->until) : Literal::null())
           << Literal::text(hold ? clean_utf8(hold->reason, 255) : "");
    }
    rows << Literal::time(state.seen_at);
  }
  if (rows.count() > 0) session.exec(render("gates_write", {{"rows", rows.done()}}));
}

}  // namespace

Result<std::vector<GateState>> MysqlStore::gate_states(EpochMs changed_since) {
  return session_->run_for([&] {
    std::vector<GateState> out;
    auto row = session_->query(render("gate_states", {{"since", Literal::time(changed_since)}}));
    while (row->next()) out.push_back(state_at(*row));
    return out;
  });
}

Result<std::vector<GateState>> MysqlStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  if (batch.queues.empty()) return std::vector<GateState>{};
  return session_->transaction_for(
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
        record(*session_, events, now);
        return out;
      },
      "gates");
}

Result<void> MysqlStore::forget_gates(EpochMs before) {
  return session_->run([&] {
    session_->exec(render("gates_forget", {{"before", Literal::time(before)}}));
    forget_batches(*session_, "gates", before);
  });
}

}  // namespace rung::mysql
