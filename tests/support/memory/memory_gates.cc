#include <algorithm>
#include <map>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/rules/failure_rules.h"
#include "tests/support/memory/memory_store.h"

namespace rung {
namespace {

bool is_over(const Pause& pause, EpochMs now) { return pause.until && *pause.until <= now; }

}  // namespace

std::optional<Pause> MemoryGates::pause(const std::string& queue, EpochMs now) const {
  const auto row = pauses_.find(queue);
  if (row == pauses_.end()) return std::nullopt;
  Pause pause = row->second.pause;
  pause.over = is_over(pause, now);
  return pause;
}

void MemoryGates::write(const Pause& pause, EpochMs now) { pauses_[pause.queue] = {pause, now}; }

void MemoryGates::forget_pauses(EpochMs before) {
  std::erase_if(pauses_, [&](const auto& entry) {
    const auto& until = entry.second.pause.until;
    return until && *until < before;
  });
}

const GateState* MemoryGates::state(const std::string& queue) const {
  const auto row = states_.find(queue);
  return row == states_.end() ? nullptr : &row->second.state;
}

GateState& MemoryGates::change_state(const std::string& queue, EpochMs now) {
  const auto [place, is_new] = states_.try_emplace(queue);
  StateRow& row = place->second;
  row.changed_at = now;
  if (is_new) row.state.seen_at = now;
  row.state.queue = queue;
  return row.state;
}

std::vector<GateState> MemoryGates::states(EpochMs changed_since) const {
  std::vector<GateState> out;
  for (const auto& [queue, row] : states_) {
    if (row.changed_at >= changed_since) out.push_back(row.state);
  }
  return out;
}

bool MemoryGates::repeats(const GateBatch& batch) {
  return !batch.id.empty() && std::exchange(batches_[batch.maker], batch.id) == batch.id;
}

// With the audit row and the event.
void MemoryStore::write_pause(const Pause& pause, AuditRow change, const std::string& reason) {
  db_.records_.write(std::move(change));
  record(event_of(pause, reason));
  db_.gates_.write(pause, db_.now_());
}

Result<Pause> MemoryStore::pause(const NewPause& request) {
  return call([&] {
    const EpochMs now = db_.now_();
    const auto before = db_.gates_.pause(request.queue, now);
    const auto after = paused(before, request, now);
    if (!after) return *before;
    write_pause(*after, audit_of(before, *after, after->reason, now), after->reason);
    db_.gates_.forget_pauses(now - kPausesKept);
    return *after;
  });
}

Result<Resumed> MemoryStore::resume(const std::string& queue, const std::string& who,
                                    const std::string& reason) {
  return call([&] {
    const EpochMs now = db_.now_();
    const auto before = db_.gates_.pause(queue, now);
    Resumed ended;
    ended.pause = resumed(before, who, now);
    if (ended.pause) write_pause(*ended.pause, audit_of(before, *ended.pause, reason, now), reason);
    const GateState* state = db_.gates_.state(queue);
    const std::optional<Pause> hold = state == nullptr ? std::nullopt : hold_in_force(*state, now);
    ended.retry_after = resumed(hold, who, now);
    if (!ended.retry_after) return ended;
    db_.gates_.change_state(queue, now).retry_after->until = now;
    db_.records_.write(audit_of(hold, *ended.retry_after, reason, now));
    record(event_of(*ended.retry_after, reason));
    return ended;
  });
}

Result<std::vector<Pause>> MemoryStore::pauses(EpochMs changed_since) {
  return call([&] {
    std::vector<Pause> out;
    for (const auto& [queue, row] : db_.gates_.pauses()) {
      if (row.changed_at >= changed_since) out.push_back(*db_.gates_.pause(queue, db_.now_()));
    }
    return out;
  });
}

Result<std::vector<GateState>> MemoryStore::gate_states(EpochMs changed_since) {
  return call([&] { return db_.gates_.states(changed_since); });
}

Result<std::vector<GateState>> MemoryStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  return call([&] {
    const bool again = db_.gates_.repeats(batch);
    std::vector<GateState> out;
    for (const std::string& queue : batch.queues) {
      GateState& state = db_.gates_.change_state(queue, db_.now_());
      if (!again) {
        const GateState before = state;
        for (SystemEvent& event : batch.change(state, db_.now_())) record(std::move(event));
        if (!(state == before)) state.damaged = false;
      }
      out.push_back(state);
    }
    return out;
  });
}

Result<std::map<TaskId, std::string>> MemoryStore::header_values(std::span<const TaskId> ids,
                                                                 const std::string& header) {
  return call([&] {
    std::map<TaskId, std::string> out;
    for (const TaskId id : ids) {
      const MemoryTask* row = db_.tasks_.find(id);
      if (row != nullptr) out.emplace(id, RuleHeaders(row->task.rule_headers)[header]);
    }
    return out;
  });
}

}  // namespace rung
