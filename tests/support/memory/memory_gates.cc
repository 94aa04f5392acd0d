#include <algorithm>
#include <map>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/rules/failure_rules.h"
#include "tests/support/memory/memory_store.h"

namespace rung {
std::optional<Pause> MemoryStore::latest_pause(const std::string& queue) const {
  const auto found = db_.pauses_.find(queue);
  if (found == db_.pauses_.end()) return std::nullopt;
  Pause pause = found->second.row;
  pause.over = pause.until && *pause.until <= db_.now_();
  return pause;
}

// With the audit row and the event.
void MemoryStore::write_pause(const Pause& pause, AuditRow change, const std::string& reason) {
  db_.records_.write(std::move(change));
  record(event_of(pause, reason));
  db_.pauses_[pause.queue] = {pause, db_.now_()};
}

GateState& MemoryStore::gate_state(const std::string& queue) {
  const auto [place, is_new] = db_.gates_.try_emplace(queue);
  auto& [state, changed_at] = place->second;
  changed_at = db_.now_();
  if (is_new) state.seen_at = changed_at;
  state.queue = queue;
  return state;
}

bool MemoryStore::repeats(const std::string& kind, const std::string& maker, const std::string& id) {
  return !id.empty() && std::exchange(db_.batches_[kind + '/' + maker], id) == id;
}

Pause MemoryStore::pause(const NewPause& request) {
  return call([&] {
    const EpochMs now = db_.now_();
    const auto before = latest_pause(request.queue);
    const auto after = paused(before, request, now);
    if (!after) return *before;
    write_pause(*after, audit_of(before, *after, after->reason, now), after->reason);
    std::erase_if(db_.pauses_, [&](const auto& entry) {
      const auto& until = entry.second.row.until;
      return until && *until < now - kPausesKept;
    });
    return *after;
  });
}

Resumed MemoryStore::resume(const std::string& queue, const std::string& who, const std::string& reason) {
  return call([&] {
    const EpochMs now = db_.now_();
    const auto before = latest_pause(queue);
    Resumed ended;
    ended.pause = resumed(before, who, now);
    if (ended.pause) write_pause(*ended.pause, audit_of(before, *ended.pause, reason, now), reason);
    const auto state = db_.gates_.find(queue);
    const auto hold = state == db_.gates_.end() ? std::nullopt : hold_in_force(state->second.row, now);
    ended.retry_after = resumed(hold, who, now);
    if (!ended.retry_after) return ended;
    gate_state(queue).retry_after->until = now;
    db_.records_.write(audit_of(hold, *ended.retry_after, reason, now));
    record(event_of(*ended.retry_after, reason));
    return ended;
  });
}

std::vector<Pause> MemoryStore::pauses(EpochMs changed_since) {
  return call([&] {
    std::vector<Pause> out;
    for (const auto& [queue, pause] : db_.pauses_) {
      if (pause.at >= changed_since) out.push_back(*latest_pause(queue));
    }
    return out;
  });
}

std::vector<GateState> MemoryStore::gate_states(EpochMs changed_since) {
  return call([&] {
    std::vector<GateState> out;
    for (const auto& [queue, state] : db_.gates_) {
      if (state.at >= changed_since) out.push_back(state.row);
    }
    return out;
  });
}

std::vector<GateState> MemoryStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  return call([&] {
    const bool again = repeats("gates", batch.maker, batch.id);
    std::vector<GateState> out;
    for (const std::string& queue : batch.queues) {
      GateState& state = gate_state(queue);
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

std::map<TaskId, std::string> MemoryStore::header_values(std::span<const TaskId> ids,
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
