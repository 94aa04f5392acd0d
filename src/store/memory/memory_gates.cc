#include <algorithm>
#include <map>
#include <set>

#include "src/core/base/require.h"
#include "src/core/rules/rate_value.h"
#include "src/store/memory/memory_store_impl.h"

namespace rung {
namespace {

bool is_over(const Pause& pause, EpochMs now) { return pause.until && *pause.until <= now; }

}  // namespace

// Beside the pause that it keeps, the audit row and the event.
void MemoryStore::keep(const std::optional<Pause>& before, const Pause& after, const std::string& reason) {
  const EpochMs now = db_.now_locked();
  db_.audit_.push_back(audit_of(before, after, reason, now));
  db_.audit_.back().id = ++db_.audited_;
  record(event_of(after, reason));
  db_.pauses_[after.queue] = after;
  db_.pauses_changed_[after.queue] = now;
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
    keep(before, *after, after->reason);
    std::erase_if(db_.pauses_, [&](const auto& entry) {
      return entry.second.until && *entry.second.until < db_.now_locked() - kPausesKept;
    });
    return *after;
  });
}

Result<Resumed> MemoryStore::resume(const std::string& queue, const std::string& who,
                                    const std::string& reason) {
  return call([&] {
    const EpochMs now = db_.now_locked();
    const auto before = latest_pause(queue);
    Resumed ended;
    ended.pause = resumed(before, who, now);
    if (ended.pause) keep(before, *ended.pause, reason);
    const auto state = db_.gates_.find(queue);
    const std::optional<Pause> hold =
        state == db_.gates_.end() ? std::nullopt : hold_in_force(state->second, now);
    ended.retry_after = resumed(hold, who, now);
    if (!ended.retry_after) return ended;
    gate_of(queue).retry_after->until = now;
    db_.audit_.push_back(audit_of(hold, *ended.retry_after, reason, now));
    db_.audit_.back().id = ++db_.audited_;
    record(event_of(*ended.retry_after, reason));
    return ended;
  });
}

Result<std::vector<Pause>> MemoryStore::pauses(EpochMs changed_since) {
  return call([&] {
    std::vector<Pause> out;
    for (const auto& [queue, pause] : db_.pauses_) {
      if (db_.pauses_changed_[queue] >= changed_since) out.push_back(*latest_pause(queue));
    }
    return out;
  });
}

Result<std::vector<GateState>> MemoryStore::gate_states(EpochMs changed_since) {
  return call([&] {
    std::vector<GateState> out;
    for (const auto& [queue, state] : db_.gates_) {
      if (db_.gates_changed_[queue] >= changed_since) out.push_back(state);
    }
    return out;
  });
}

GateState& MemoryStore::gate_of(const std::string& queue) {
  db_.gates_changed_[queue] = db_.now_locked();
  GateState& state = db_.gates_[queue];
  if (state.queue.empty()) state.seen_at = db_.now_locked();
  state.queue = queue;
  return state;
}

Result<std::vector<GateState>> MemoryStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  return call([&] {
    const bool again = !batch.id.empty() && db_.gate_batches_[batch.maker] == batch.id;
    if (!batch.id.empty()) db_.gate_batches_[batch.maker] = batch.id;
    std::vector<GateState> out;
    for (const std::string& queue : batch.queues) {
      GateState& state = gate_of(queue);
      if (!again) {
        const GateState before = state;
        for (SystemEvent& event : batch.change(state, db_.now_locked())) record(std::move(event));
        if (!(state == before)) state.damaged = false;
      }
      out.push_back(state);
    }
    return out;
  });
}

Result<std::vector<SendTimes>> MemoryStore::take_send_times(std::span<const SendRequest> requests) {
  return call([&] {
    std::vector<SendTimes> out;
    for (const SendRequest& request : requests) {
      SendBook book;
      MemoryDb::Rate& own = db_.rates_[{request.queue, ""}];
      book.queue = own.schedule;
      book.reserved = own.reserved;
      for (const auto& value : request.values) {
        if (!value.value.empty())
          book.values[value.value] = db_.rates_[{request.queue, value.value}].schedule;
      }
      for (const auto& [id, row] : db_.tasks_) {
        const Task& task = row.task;
        if (request.in_flight <= 0 || task.queue != request.queue) continue;
        if (task.state == State::scheduled) book.scheduled[id] = task.attempt;
        const bool claimed = task.state == State::publishing && task.epoch > 0;
        if (claimed || (task.state == State::awaiting && task.next_at)) ++book.out;
      }
      out.push_back(take(book, request, db_.now_locked()));
      const EpochMs now = db_.now_locked();
      own = {book.queue, book.reserved, std::max(book.queue.next(), now)};
      for (const auto& [value, schedule] : book.values) {
        if (!value.empty())
          db_.rates_[{request.queue, value}] = {schedule, {}, std::max(schedule.next(), now)};
      }
    }
    return out;
  });
}

Result<int> MemoryStore::forget_send_times(EpochMs before, int most) {
  return call([&] {
    int count = 0;
    std::erase_if(db_.rates_, [&](const auto& entry) {
      const MemoryDb::Rate& rate = entry.second;
      const bool goes = count < most && rate.schedule.next() < before && rate.filled_at < before;
      count += goes ? 1 : 0;
      return goes;
    });
    return count;
  });
}

Result<std::map<TaskId, std::string>> MemoryStore::header_values(std::span<const TaskId> ids,
                                                                 const std::string& header) {
  return call([&] {
    std::map<TaskId, std::string> out;
    for (const TaskId id : ids) {
      const auto row = db_.tasks_.find(id);
      if (row == db_.tasks_.end()) continue;
      out.emplace(id, rate_value(row->second.task.rule_headers, header));
    }
    return out;
  });
}

Result<void> MemoryStore::forget_gates(EpochMs /*before*/) {
  auto done = call([] { return true; });
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
    std::set<std::string> queues;
    for (const auto& [queue, pause] : db_.pauses_) queues.insert(queue);
    for (const auto& [queue, state] : db_.gates_) queues.insert(queue);
    for (const std::string& queue : queues) {
      const auto pause = latest_pause(queue);
      const auto state = db_.gates_.find(queue);
      auto gate = shown_gate(pause ? &*pause : nullptr, state == db_.gates_.end() ? nullptr : &state->second,
                             db_.now_locked());
      if (!gate) continue;
      const QueueGate& waiting = gates[queue];
      gate->waiting = waiting.waiting;
      gate->next_at = waiting.next_at;
      gates[queue] = *std::move(gate);
    }
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
