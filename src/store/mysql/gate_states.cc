// What instances share about the gates of queues: breakers, permits, notes for people.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "src/core/require.h"
#include "src/core/utf8.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr double kTokenUnits = 1e6;  // rung_rates.tokens is in millionths
constexpr std::size_t kReasonBytes = 1000;

Literal length_of(const Literal& text) { return Literal::rendered(render("length_of", {{"text", text}})); }

std::string unused_json(const GateState& state) {
  auto json = nlohmann::json::array();
  for (const auto& [node, unused] : state.unused) json.push_back({node, unused.permits, unused.at.ms});
  return json.dump();
}

// False: a part of it could not be read.
bool read_unused(GateState& state, const std::string& text) {
  if (text.empty()) return true;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return false;
  for (const auto& entry : json) {
    const bool whole = entry.is_array() && entry.size() == 3 && entry[0].is_number_integer() &&
                       entry[1].is_number_integer() && entry[2].is_number_integer();
    if (!whole) return false;
    state.unused[entry[0].get<int>()] = {entry[1].get<int>(), {entry[2].get<std::int64_t>()}};
  }
  return true;
}

std::optional<GateState::Hold> hold_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const auto since = time_at(row, column), until = time_at(row, column + 1);
  if (!since || !until) return std::nullopt;
  return GateState::Hold{*since, *until, text_at(row, column + 2)};
}

// The columns of gate_states and gate_lock.
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
  state.damaged = !read_unused(state, text_at(row, 16)) || !whole || !word;
  state.seen_at = time_at(row, 17).value_or(EpochMs{});
  return state;
}

// By queue, with their rows locked: all in one statement, in one order, so that two batches don't deadlock.
std::map<std::string, GateState> lock_states(Session& session, std::span<const std::string> queues,
                                             EpochMs at) {
  const Literal now = Literal::time(at);
  std::map<std::string, GateState> out;
  std::vector<Literal> names;
  for (const std::string& queue : queues) names.push_back(Literal::text(queue));
  const std::string lock = render("gates_lock", {{"queues", Literal::list(names)}});
  const auto read = [&] {
    auto row = session.query(lock);
    while (row->next()) {
      GateState state = state_at(*row);
      out[state.queue] = std::move(state);
    }
  };
  read();
  Rows missing;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (out.contains(queues[i])) continue;
    missing.row() << names[i] << length_of(names[i]) << Literal::text("") << Literal::text("")
                  << Literal::text("") << now;
  }
  if (missing.count() == 0) return out;
  session.exec(render("gates_create", {{"rows", missing.done()}}));
  read();
  for (const std::string& queue : queues) {
    if (!out.contains(queue)) throw Again{"the row of a queue's gates is missing"};
  }
  return out;
}

GateState lock_state(Session& session, const std::string& queue) {
  return lock_states(session, {&queue, 1}, session.now()).at(queue);
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
               << Literal::text(detail_json(breaker)) << Literal::text(unused_json(state));
    for (const auto& hold : {state.retry_after, state.outside, state.limited}) {
      rows << (hold ? Literal::time(hold->since) : Literal::null())
           << (hold ? Literal::time(hold->until) : Literal::null())
           << Literal::text(hold ? clean_utf8(hold->reason, 255) : "");
    }
    rows << Literal::time(state.seen_at);
  }
  if (rows.count() > 0) session.exec(render("gates_write", {{"rows", rows.done()}}));
}

// Whether the maker's latest batch was this one.
bool is_applied(Session& session, const GateBatch& batch) {
  if (batch.id.empty()) return false;
  const Literal maker = Literal::text(batch.maker);
  auto row = session.query(render("gate_batch_lock", {{"maker", maker}}));
  if (row->next() && text_at(*row, 1) == batch.id) return true;
  session.exec(render("gate_batch_write", {{"maker", maker}, {"id", Literal::text(batch.id)}}));
  return false;
}

// The buckets of the queue ("") and of the values asked for. REQUIRES: the queue's row is locked.
void read_buckets(Session& session, const Literal& queue, const NewPermits& wanted, PermitBook& book) {
  std::vector<Literal> values{Literal::text("")};
  for (const auto* counts : {&wanted.request.wanted, &wanted.returned}) {
    for (const auto& [value, count] : *counts) {
      if (!value.empty()) values.push_back(Literal::text(value));
    }
  }
  auto row = session.query(render("rates", {{"queue", queue}, {"values", Literal::list(values)}}));
  while (row->next()) {
    const std::string value = text_at(*row, 1);
    TokenBucket& bucket = value.empty() ? book.queue : book.values[value];
    bucket.tokens = static_cast<double>(row->getInt64(2)) / kTokenUnits;
    bucket.filled_at = time_at(*row, 3).value_or(EpochMs{});
  }
}

void write_buckets(Session& session, const Literal& queue, const PermitBook& book) {
  Rows rows;
  const auto add = [&](const std::string& name, const TokenBucket& bucket) {
    if (bucket.filled_at.ms == 0) return;
    const Literal value = Literal::text(name);
    rows.row() << queue << length_of(queue) << value << length_of(value)
               << Literal::number(std::llround(bucket.tokens * kTokenUnits))
               << Literal::time(bucket.filled_at);
  };
  add("", book.queue);
  for (const auto& [value, bucket] : book.values) add(value, bucket);
  if (rows.count() > 0) session.exec(render("rates_write", {{"rows", rows.done()}}));
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
        const bool again = is_applied(*session_, batch);
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

Result<PermitCounts> MysqlStore::permits(const NewPermits& wanted) {
  return session_->transaction_for([&] {
    const Literal queue = Literal::text(wanted.queue);
    const GateState before = lock_state(*session_, wanted.queue);
    GateState state = before;
    PermitBook book;
    read_buckets(*session_, queue, wanted, book);
    if (wanted.rules.in_flight > 0) {
      auto row = session_->query(render(
          "gate_in_flight", {{"queue", queue}, {"most", Literal::number(wanted.rules.in_flight + 1)}}));
      if (row->next()) book.in_flight = row->getInt(1);
    }
    PermitCounts granted = permit(state, book, wanted, session_->now());
    write_buckets(*session_, queue, book);
    if (!(state == before)) write_states(*session_, {&state, 1});
    return granted;
  });
}

Result<std::map<TaskId, std::string>> MysqlStore::header_values(std::span<const TaskId> ids,
                                                                const std::string& header) {
  return session_->run_for([&] {
    std::map<TaskId, std::string> out;
    if (ids.empty()) return out;
    auto row = session_->query(render("rule_headers", {{"ids", Literal::ids(ids)}}));
    while (row->next()) {
      const auto headers = rule_headers_from(text_at(*row, 2));
      const auto value = headers.find(header);
      out.emplace(TaskId{row->getInt64(1)}, value == headers.end() ? "" : value->second);
    }
    return out;
  });
}

Result<void> MysqlStore::forget_rates(EpochMs before) {
  return session_->run([&] {
    session_->exec(render("rates_forget", {{"before", Literal::time(before)}}));
    session_->exec(render("gates_forget", {{"before", Literal::time(before)}}));
    session_->exec(render("gate_batches_forget", {{"before", Literal::time(before)}}));
  });
}

}  // namespace rung::mysql
