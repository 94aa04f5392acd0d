#include <algorithm>
#include <map>
#include <set>

#include "src/core/base/utf8.h"
#include "tests/support/memory/memory_store_impl.h"

namespace rung {

namespace {

constexpr const char* kUnreadable = "the memory store was told that a message cannot be read";

}  // namespace

std::vector<StoredMessage> MemoryTasks::messages(std::span<const TaskId> ids) const {
  std::vector<StoredMessage> out;
  for (const TaskId id : ids) {
    if (const auto it = rows_.find(id); it != rows_.end()) out.push_back({id, it->second.message});
    if (const auto it = left_.find(id); it != left_.end()) out.push_back({id, it->second});
  }
  return out;
}

Result<std::vector<StoredMessage>> MemoryStore::messages(std::span<const TaskId> ids) {
  bool all = true;
  auto messages = call([&] {
    all = db_.faults_.are_readable(ids);
    return all ? db_.tasks_.messages(ids) : std::vector<StoredMessage>{};
  });
  if (!all) return permanent(kUnreadable);
  return messages;
}

// Nothing is claimed if a message cannot be read, as in one transaction.
Result<Claimed> MemoryStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                                   std::size_t most_bytes) {
  std::vector<TaskId> ids;
  for (const Event& claim : claims) ids.push_back(claim.id);
  TaskWriter::ClaimLimits limits{most_bytes};
  {
    const std::lock_guard lock(db_.mutex_);
    if (!db_.faults_.are_readable(ids)) return permanent(kUnreadable);
    limits.short_from = db_.short_claims_;
  }
  auto decisions = writer_.claim(claims, fence, decide, limits);
  if (!decisions) return tl::unexpected(std::move(decisions).error());
  return Claimed{*std::move(decisions), transactions_.messages()};
}

Result<WorkWaiting> MemoryStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                              EpochMs until) {
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
    out.cause_changes = !db_.causes_.rows().empty();
    return out;
  });
}

Result<std::vector<DueEntry>> MemoryStore::due(State state, std::span<const int> shards,
                                               std::optional<EpochMs> after, EpochMs until, int per_shard,
                                               std::span<const std::string> without) {
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

Result<std::vector<DueEntry>> MemoryStore::stranded(std::span<const Lease> leases, int limit) {
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

Result<std::vector<TaskId>> MemoryStore::short_claims(std::span<const Lease> leases) {
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

bool MemoryStore::has_headers(const Filter& f, const Message& message) {
  if (!f.correlation_id.empty() && message.properties.correlation_id != f.correlation_id) return false;
  return std::ranges::all_of(f.headers, [&](const auto& header) {
    const std::string value = indexed_value(message, header.first);
    return !value.empty() && value == clean_utf8(header.second, kIndexedBytes);
  });
}

namespace {

// Whether `f` lists it behind the task `f.after`.
bool is_behind(const Filter& f, const Task& t) {
  if (!f.after) return true;
  switch (f.order) {
    case Filter::Order::oldest:
      return t.id > *f.after;
    case Filter::Order::due:
      return due_order(t) > std::pair(f.after_due ? f.after_due->ms : INT64_MAX, *f.after);
    case Filter::Order::newest:
      break;
  }
  return t.id < *f.after;
}

}  // namespace

bool MemoryStore::shows(const Filter& f, const Task& t) {
  const bool is_due = due_of(t).has_value();
  const EpochMs due = t.next_at.value_or(EpochMs{});
  return (!f.state || t.state == *f.state) && (!f.kind || t.kind == *f.kind) &&
         (f.states.empty() || std::ranges::find(f.states, t.state) != f.states.end()) &&
         (f.queue.empty() || t.queue == f.queue) && (f.exchange.empty() || t.exchange == f.exchange) &&
         (f.tag.empty() || t.tag == f.tag) && (f.message_id.empty() || t.message_id == f.message_id) &&
         (f.ladder.empty() || t.ladder == f.ladder) &&
         (f.error_contains.empty() || t.last_error.find(f.error_contains) != std::string::npos) &&
         (f.error_type.empty() || t.error_type == f.error_type) &&
         (!f.first_failed_before ||
          (t.first_failed_at.ms > 0 && t.first_failed_at < *f.first_failed_before)) &&
         (!f.first_failed_after || t.first_failed_at > *f.first_failed_after) &&
         (f.cause.empty() || t.cause == f.cause) && (!f.silence_held || is_silence_held(t)) &&
         (!f.body_stored || *f.body_stored == body_stored(t)) &&
         (!f.due_before || (is_due && due < *f.due_before)) &&
         (!f.due_after || (is_due && due > *f.due_after)) &&
         (!f.created_before || t.created_at < *f.created_before) &&
         (!f.created_after || t.created_at > *f.created_after) && is_behind(f, t);
}

Result<std::int64_t> MemoryStore::count(const Filter& filter, std::int64_t most) {
  return call([&] {
    const auto n = std::ranges::count_if(db_.tasks_.rows(), [&](const auto& row) {
      return shows(filter, row.second.task) && has_headers(filter, *row.second.message);
    });
    return std::min<std::int64_t>(n, most);
  });
}

Result<TaskCounts> MemoryStore::count_by(const Filter& filter, const CountBy& by, std::int64_t most) {
  return call([&] {
    const auto value_of = [&](const MemoryTask& row) {
      switch (by.field) {
        case CountBy::Field::queue:
          return row.task.queue;
        case CountBy::Field::error_type:
          return row.task.error_type;
        case CountBy::Field::tag:
          return row.task.tag;
        case CountBy::Field::level:
          return std::to_string(row.task.level);
        case CountBy::Field::cause:
          return row.task.cause;
        case CountBy::Field::header:
          break;
      }
      return indexed_value(*row.message, by.header);
    };
    TaskCounts out;
    std::map<std::string, std::int64_t> values;
    for (const auto& [id, row] : db_.tasks_.rows()) {
      if (out.total == most || !shows(filter, row.task) || !has_headers(filter, *row.message)) continue;
      ++values[value_of(row)];
      ++out.total;
    }
    for (const auto& [value, tasks] : values) out.groups.push_back({value, tasks});
    std::ranges::stable_sort(out.groups, std::ranges::greater{}, &TaskCounts::Group::tasks);
    for (; out.groups.size() > kMostGroups; out.groups.pop_back()) out.others += out.groups.back().tasks;
    return out;
  });
}

Result<std::vector<TaskRow>> MemoryStore::list(const Filter& filter) {
  return call([&] {
    std::vector<TaskRow> out;
    const auto& rows = db_.tasks_.rows();
    for (auto it = rows.rbegin(); it != rows.rend(); ++it) {
      const MemoryTask& row = it->second;
      if (!shows(filter, row.task) || !has_headers(filter, *row.message)) continue;
      out.push_back(row_of(row));
    }
    if (filter.order == Filter::Order::oldest) std::ranges::reverse(out);
    if (filter.order == Filter::Order::due)
      std::ranges::sort(out, {}, [](const TaskRow& row) { return due_order(row.task); });
    if (static_cast<int>(out.size()) > filter.limit)
      out.resize(static_cast<std::size_t>(std::max(0, filter.limit)));
    return out;
  });
}

Result<std::optional<TaskRow>> MemoryStore::find(TaskId id) {
  return call([&] {
    std::optional<TaskRow> out;
    if (const MemoryTask* row = db_.tasks_.find(id)) out = row_of(*row);
    return out;
  });
}

Result<std::vector<TaskId>> MemoryStore::children(const Task& task) {
  return call([&] {
    std::vector<TaskId> out;
    if (task.message_id.empty()) return out;
    int looked_at = 0;
    const auto& rows = db_.tasks_.rows();
    for (auto it = rows.upper_bound(task.id); it != rows.end(); ++it) {
      const Task& child = it->second.task;
      if (child.message_id != task.message_id) continue;
      if (++looked_at > kMostLookedAt || static_cast<int>(out.size()) == kMostChildren) break;
      if (child.parent == task.id) out.push_back(child.id);
    }
    return out;
  });
}

Result<std::vector<AttemptRow>> MemoryStore::histories(std::span<const TaskId> ids) {
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

Result<std::string> MemoryStore::origin(TaskId id) {
  auto found = call([&] {
    const MemoryTask* row = db_.tasks_.find(id);
    return row == nullptr ? std::optional<std::string>() : row->origin;
  });
  if (!found) return tl::unexpected(found.error());
  if (!*found) return not_found("no task " + id.str());
  return **found;
}

Result<std::vector<KnownTask>> MemoryStore::known(std::span<const TaskId> ids) {
  return call([&] {
    std::vector<KnownTask> out;
    for (const TaskId id : ids) {
      if (const MemoryTask* row = db_.tasks_.find(id)) out.push_back({row_of(*row), row->origin});
    }
    return out;
  });
}

Result<std::vector<QueueStat>> MemoryStore::open_by_queue() {
  return call([&] {
    std::map<std::pair<std::string, State>, QueueStat> groups;
    for (const auto& [id, row] : db_.tasks_.rows()) {
      const Task& t = row.task;
      if (std::ranges::find(kEndedStates, t.state) != kEndedStates.end()) continue;
      QueueStat& s = groups[{t.queue, t.state}];
      s.queue = t.queue;
      s.state = t.state;
      ++s.tasks;
      if (t.state != State::scheduled || !t.next_at) continue;
      s.oldest_due_at = std::min(s.oldest_due_at.value_or(*t.next_at), *t.next_at);
      if (*t.next_at < db_.now_()) ++s.overdue;
    }
    std::vector<QueueStat> out;
    for (auto& [key, s] : groups) out.push_back(std::move(s));
    return out;
  });
}

Result<EndedPiece> MemoryStore::count_ended(const EndedPlace& from, int most) {
  return call([&] {
    const std::pair begin(from.queue, from.id);
    std::set<std::pair<std::string, TaskId>> behind;
    for (const auto& [id, row] : db_.tasks_.rows()) {
      const std::pair place(row.task.queue, id);
      if (row.task.state == from.state && place > begin) behind.insert(place);
    }
    EndedPiece piece;
    piece.next = ended_after(from.state);
    int counted = 0;
    for (const auto& [queue, id] : behind) {
      if (piece.queues.empty() || piece.queues.back().queue != queue)
        piece.queues.push_back({queue, from.state, 0, {}, 0});
      ++piece.queues.back().tasks;
      if (++counted < most) continue;
      piece.next = EndedPlace{from.state, queue, id};
      break;
    }
    return piece;
  });
}

}  // namespace rung
