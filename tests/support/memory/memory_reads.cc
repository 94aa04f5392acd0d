#include <algorithm>
#include <iterator>
#include <set>

#include "src/core/machine/machine.h"
#include "tests/support/memory/memory_store.h"

namespace rung {

std::vector<StoredMessage> MemoryTasks::messages(std::span<const TaskId> ids) const {
  std::vector<StoredMessage> out;
  for (const TaskId id : ids) {
    if (const auto it = rows_.find(id); it != rows_.end()) out.push_back({id, it->second.message});
    if (const auto it = left.find(id); it != left.end()) out.push_back({id, it->second});
  }
  return out;
}

std::vector<StoredMessage> MemoryStore::messages(std::span<const TaskId> ids) {
  return call([&] {
    db_.faults_.expect_readable(ids);
    return db_.tasks_.messages(ids);
  });
}

// Nothing is claimed if a message cannot be read, as in one transaction.
Claimed MemoryStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                           std::size_t most_bytes) {
  std::vector<TaskId> ids;
  for (const Event& claim : claims) ids.push_back(claim.id);
  {
    const std::lock_guard lock(db_.mutex_);
    db_.faults_.expect_readable(ids);
  }
  return TaskWriter::claim(claims, fence, decide, most_bytes);
}

WorkWaiting MemoryStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until, EpochMs until) {
  return call([&] {
    WorkWaiting out;
    if (shards.empty()) return out;
    const auto any = [&](State state, EpochMs most) {
      return std::ranges::any_of(shards, [&](int shard) {
        const auto& due = db_.tasks_.due(state, shard);
        return !due.empty() && due.begin()->first <= most;
      });
    };
    out.scheduled = any(State::scheduled, scheduled_until) || any(State::publishing, scheduled_until);
    out.awaiting = any(State::awaiting, until);
    out.parked = any(State::parked, until);
    out.bulks = std::ranges::any_of(db_.bulks_.rows(), [now = db_.now_()](const MemoryBulks::Row& row) {
      return row.bulk.state == BulkState::running && row.next <= now;
    });
    out.cause_changes = !db_.causes_.empty();
    return out;
  });
}

std::vector<DueEntry> MemoryStore::due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                       EpochMs until, int per_shard, std::span<const std::string> without) {
  return call([&] {
    std::vector<DueEntry> out;
    for (const int shard : shards) {
      const auto& due = db_.tasks_.due(state, shard);
      int taken = 0;
      for (auto it = after ? due.lower_bound({*after + Ms{1}, TaskId{}}) : due.begin();
           it != due.end() && it->first <= until && taken < per_shard; ++it) {
        const Task& t = db_.tasks_.find(it->second)->task;
        if (std::ranges::find(without, t.queue) != without.end()) continue;
        ++taken;
        out.push_back({t.id, shard, it->first, t.queue});
      }
    }
    std::ranges::sort(out, {}, [](const DueEntry& e) { return std::pair(e.at, e.id); });
    return out;
  });
}

std::vector<DueEntry> MemoryStore::stranded(std::span<const Lease> leases, int limit) {
  return call([&] {
    std::vector<DueEntry> out;
    for (const Lease& lease : leases) {
      for (const auto& [at, id] : db_.tasks_.due(State::publishing, lease.shard)) {
        const Task& t = db_.tasks_.find(id)->task;
        if (t.epoch < lease.epoch) out.push_back({id, t.shard, at, t.queue});
      }
    }
    std::ranges::sort(out, {}, [](const DueEntry& e) { return std::pair(e.at, e.id); });
    out.resize(std::min(out.size(), static_cast<std::size_t>(limit)));
    return out;
  });
}

std::vector<TaskId> MemoryStore::short_claims(std::span<const Lease> leases) {
  return call([&] {
    std::vector<TaskId> out;
    for (const Lease& lease : leases) {
      for (const auto& [at, id] : db_.tasks_.due(State::scheduled, lease.shard)) {
        const MemoryTask& row = *db_.tasks_.find(id);
        if (row.has_short_claim() && row.current().epoch < lease.epoch) out.push_back(id);
      }
    }
    return out;
  });
}

// --- for people

bool MemoryStore::shows(const Filter& f, const Task& t) {
  return (f.states.empty() || std::ranges::find(f.states, t.state) != f.states.end()) &&
         (f.queue.empty() || t.queue == f.queue) && (f.tag.empty() || t.tag == f.tag) &&
         (!f.silence_held || is_silence_held(t)) && (!f.body_stored || *f.body_stored == body_stored(t));
}

std::vector<TaskRow> MemoryStore::list(const Filter& filter) {
  return call([&] {
    std::vector<TaskRow> out;
    const auto& rows = db_.tasks_.rows();
    for (auto it = rows.rbegin(); it != rows.rend() && static_cast<int>(out.size()) < filter.limit; ++it) {
      if (shows(filter, it->second.task)) out.push_back(row_of(it->second));
    }
    return out;
  });
}

std::optional<TaskRow> MemoryStore::find(TaskId id) {
  return call([&] {
    std::optional<TaskRow> out;
    if (const MemoryTask* row = db_.tasks_.find(id)) out = row_of(*row);
    return out;
  });
}

std::vector<AttemptRow> MemoryStore::histories(std::span<const TaskId> ids) {
  return call([&] {
    std::vector<AttemptRow> out;
    for (const TaskId id : std::set<TaskId>(ids.begin(), ids.end())) {
      const MemoryTask* row = db_.tasks_.find(id);
      if (row == nullptr) continue;
      for (const auto& [number, a] : row->attempts)
        out.push_back({a, row->task.queue, row->task.message_id, db_.leases_.name(a.node)});
    }
    return out;
  });
}

std::vector<KnownTask> MemoryStore::known(std::span<const TaskId> ids) {
  return call([&] {
    std::vector<KnownTask> out;
    for (const TaskId id : ids) {
      if (const MemoryTask* row = db_.tasks_.find(id)) out.push_back({row_of(*row), row->origin});
    }
    return out;
  });
}

std::vector<AuditRow> MemoryStore::audit(TaskId id) {
  return call([&] {
    std::vector<AuditRow> out;
    std::ranges::copy_if(db_.records_.audit, std::back_inserter(out),
                         [&](const AuditRow& row) { return row.task == id; });
    return out;
  });
}

}  // namespace rung
