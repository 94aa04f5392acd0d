#include <algorithm>
#include <map>

#include "src/store/memory/memory_store_impl.h"

namespace rung {
namespace {

bool is_over(const Pause& pause, EpochMs now) { return pause.until && *pause.until <= now; }

// What the view retry_queues says of the queue, if nothing stronger holds it back.
void show(const GateState& state, EpochMs now, std::map<std::string, QueueGate>& gates) {
  constexpr Ms kConfirmed{60'000};
  const auto put = [&](const char* word, const GateState::Hold& hold, const char* by) {
    QueueGate& gate = gates[state.queue];
    if (!gate.state.empty()) return;
    gate.state = word;
    gate.since = hold.since;
    if (hold.until.ms != 0) gate.until = hold.until;
    gate.reason = hold.reason;
    gate.by = by;
  };
  const auto holds = [&](const std::optional<GateState::Hold>& hold) { return hold && hold->until > now; };
  const bool confirmed = state.seen_at > now - kConfirmed;
  const Breaker& breaker = state.breaker;
  if (holds(state.outside) && confirmed) put("outside_window", *state.outside, "");
  if (holds(state.retry_after)) put("paused", *state.retry_after, "retry-after");
  if (breaker.state != Breaker::State::closed && confirmed) {
    const bool waits = breaker.state == Breaker::State::open && breaker.until && *breaker.until > now;
    put(waits ? "breaker_open" : "breaker_half_open",
        {breaker.since, breaker.until.value_or(EpochMs{}), breaker.reason}, "");
  }
  if (holds(state.limited)) put("rate_limited", *state.limited, "");
}

}  // namespace

// Beside the pause that it keeps, the audit row and the event.
void MemoryStore::keep(const std::optional<Pause>& before, const Pause& after) {
  const EpochMs now = db_.now_locked();
  db_.audit_.push_back(audit_of(before, after, now));
  db_.audit_.back().id = ++db_.audited_;
  record(event_of(after));
  db_.pauses_[after.queue] = after;
}

void MemoryStore::record(SystemEvent event) {
  event.id = static_cast<std::int64_t>(db_.events_.size()) + 1;
  event.at = db_.now_locked();
  db_.events_.push_back(std::move(event));
}

std::optional<Pause> MemoryStore::latest_pause(const std::string& queue) const {
  const auto it = db_.pauses_.find(queue);
  if (it == db_.pauses_.end()) return std::nullopt;
  Pause pause = it->second;
  pause.over = is_over(pause, db_.now_locked());
  return pause;
}

Result<Pause> MemoryStore::pause(const NewPause& request) {
  return call([&] {
    const auto before = latest_pause(request.queue);
    const auto after = paused(before, request, db_.now_locked());
    if (!after) return *before;
    keep(before, *after);
    std::erase_if(db_.pauses_, [&](const auto& entry) {
      return entry.second.until && *entry.second.until < db_.now_locked() - kPausesKept;
    });
    return *after;
  });
}

Result<std::optional<Pause>> MemoryStore::resume(const std::string& queue, const std::string& who) {
  return call([&] {
    const auto before = latest_pause(queue);
    auto after = resumed(before, who, db_.now_locked());
    if (after) keep(before, *after);
    return after;
  });
}

Result<std::vector<Pause>> MemoryStore::pauses() {
  return call([&] {
    std::vector<Pause> out;
    for (const auto& [queue, pause] : db_.pauses_) out.push_back(*latest_pause(queue));
    return out;
  });
}

Result<std::vector<GateState>> MemoryStore::gate_states() {
  return call([&] {
    std::vector<GateState> out;
    for (const auto& [queue, state] : db_.gates_) out.push_back(state);
    return out;
  });
}

GateState& MemoryStore::gate_of(const std::string& queue) {
  GateState& state = db_.gates_[queue];
  if (state.queue.empty()) state.seen_at = db_.now_locked();
  state.queue = queue;
  return state;
}

Result<GateState> MemoryStore::change_gate(const std::string& queue, const GateChange& change) {
  return call([&] {
    GateState& state = gate_of(queue);
    for (SystemEvent& event : change(state, db_.now_locked())) record(std::move(event));
    return state;
  });
}

Result<PermitCounts> MemoryStore::permits(const NewPermits& wanted) {
  return call([&] {
    PermitBook book;
    book.queue = db_.rates_[{wanted.queue, ""}];
    for (const auto& [value, count] : wanted.request.wanted) {
      if (!value.empty()) book.values[value] = db_.rates_[{wanted.queue, value}];
    }
    if (wanted.rules.in_flight > 0) {
      for (const auto& [id, row] : db_.tasks_) {
        const State state = row.task.state;
        const bool claimed = state == State::publishing && row.task.epoch > 0;
        const bool out = claimed || state == State::awaiting;
        if (out && row.task.queue == wanted.queue) ++book.in_flight;
      }
    }
    PermitCounts granted = permit(gate_of(wanted.queue), book, wanted, db_.now_locked());
    db_.rates_[{wanted.queue, ""}] = book.queue;
    for (const auto& [value, bucket] : book.values) db_.rates_[{wanted.queue, value}] = bucket;
    return granted;
  });
}

Result<std::map<TaskId, std::string>> MemoryStore::header_values(std::span<const TaskId> ids,
                                                                 const std::string& header) {
  return call([&] {
    std::map<TaskId, std::string> out;
    for (const TaskId id : ids) {
      const auto row = db_.tasks_.find(id);
      if (row == db_.tasks_.end()) continue;
      const auto value = row->second.task.rule_headers.find(header);
      out.emplace(id, value == row->second.task.rule_headers.end() ? "" : value->second);
    }
    return out;
  });
}

Result<void> MemoryStore::forget_rates(EpochMs before) {
  auto done = call([&] {
    return std::erase_if(db_.rates_, [&](const auto& entry) { return entry.second.filled_at < before; });
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<QueueGate>> MemoryStore::queue_gates() {
  return call([&] {
    std::map<std::string, QueueGate> gates;
    for (const auto& [id, row] : db_.tasks_) {
      const Task& t = row.task;
      if (t.state != State::scheduled || t.queue.empty()) continue;
      QueueGate& gate = gates[t.queue];
      ++gate.waiting;
      if (t.next_at) gate.next_at = std::min(gate.next_at.value_or(*t.next_at), *t.next_at);
    }
    for (const auto& [queue, pause] : db_.pauses_) {
      if (is_over(pause, db_.now_locked())) continue;
      QueueGate& gate = gates[queue];
      gate.since = pause.since;
      gate.until = pause.until;
      gate.reason = pause.reason;
      gate.by = pause.who;
      gate.state = "paused";
    }
    for (const auto& [queue, state] : db_.gates_) show(state, db_.now_locked(), gates);
    std::vector<QueueGate> out;
    for (auto& [queue, gate] : gates) {
      gate.queue = queue;
      if (gate.state.empty()) gate.state = "flowing";
      out.push_back(std::move(gate));
    }
    return out;
  });
}

}  // namespace rung
