#include <algorithm>
#include <map>

#include "src/store/memory/memory_store_impl.h"

namespace rung {
namespace {

bool is_over(const Pause& pause, EpochMs now) { return pause.until && *pause.until <= now; }

}  // namespace

// Beside the pause that it keeps, the audit row and the event.
void MemoryStore::keep(const std::optional<Pause>& before, const Pause& after) {
  const EpochMs now = db_.now_locked();
  db_.audit_.push_back(audit_of(before, after, now));
  db_.audit_.back().id = ++db_.audited_;
  db_.events_.push_back(event_of(after));
  db_.events_.back().id = static_cast<std::int64_t>(db_.events_.size());
  db_.events_.back().at = now;
  db_.pauses_[after.queue] = after;
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
    }
    std::vector<QueueGate> out;
    for (auto& [queue, gate] : gates) {
      gate.queue = queue;
      gate.state = gate.since ? "paused" : "flowing";
      out.push_back(std::move(gate));
    }
    return out;
  });
}

}  // namespace rung
