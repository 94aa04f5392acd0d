#include <algorithm>
#include <set>
#include <utility>

#include "src/core/base/result.h"
#include "tests/support/memory/memory_store.h"

namespace rung {
void MemoryTasks::purge(TaskId id) {
  const auto row = rows_.find(id);
  RUNG_REQUIRE(row != rows_.end());
  if (!row->second.intake_key.empty()) keys_.erase(row->second.intake_key);
  remove_from_indexes(row->second.task);
  left[id] = row->second.message;
  rows_.erase(row);
}

void MemoryRecords::write(AuditRow row) {
  row.id = ++audited_;
  audit.push_back(std::move(row));
}

void MemoryRecords::write(SystemEvent event, EpochMs now) {
  event.id = static_cast<std::int64_t>(events.size()) + 1;
  event.at = now;
  events.push_back(std::move(event));
}

PurgeResult MemoryStore::purge_finished(EpochMs before, const PurgeCursor& from, int limit) {
  return call([&] {
    MemoryTasks::ByTime finished;
    for (const State state : {State::succeeded, State::parked, State::cancelled, State::discarded}) {
      const auto& all = db_.tasks_.finished(state);
      for (auto it = all.upper_bound({from.at, from.id}); it != all.end() && it->first < before; ++it)
        finished.insert(*it);
    }
    PurgeResult out{0, from, static_cast<int>(finished.size()) > limit};
    int seen = 0;
    for (const auto& [at, id] : finished) {
      if (++seen > limit) break;
      out.last = {at, id};
      const Task& task = db_.tasks_.find(id)->task;
      if (task.state == State::parked || db_.bulks_.is_in_open(id)) continue;
      db_.tasks_.purge(id);
      ++out.tasks;
    }
    return out;
  });
}

PartitionsAdded MemoryStore::add_partitions(std::span<const Partition> partitions) {
  return call([&] {
    if (db_.partitions_in_use_ && ++db_.partition_changes_ > 0) return PartitionsAdded::busy;
    std::vector<Partition>& all = db_.tasks_.partitions;
    for (const Partition& partition : partitions) {
      const TaskId from = all.empty() ? TaskId{} : all.back().end;
      if (all.empty() || partition.end > from) all.push_back({partition.name, from, partition.end});
    }
    return PartitionsAdded::added;
  });
}

PartitionDrop MemoryStore::drop_partition(const Partition& partition) {
  return call([&] {
    auto& partitions = db_.tasks_.partitions;
    auto& left = db_.tasks_.left;
    const auto it = std::ranges::find(partitions, partition.end, &Partition::end);
    if (it == partitions.end()) return PartitionDrop::dropped;
    const auto task = db_.tasks_.rows().lower_bound(it->from);
    if (task != db_.tasks_.rows().end() && task->first < it->end) return PartitionDrop::kept;
    left.erase(left.lower_bound(it->from), left.lower_bound(it->end));
    const auto next = partitions.erase(it);
    if (next != partitions.end()) next->from = partition.from;
    return PartitionDrop::dropped;
  });
}

Swept MemoryStore::sweep(TaskId from, TaskId to, int limit) {
  return call([&] {
    Swept out;
    auto& left = db_.tasks_.left;
    auto it = left.lower_bound(from);
    while (it != left.end() && it->first < to) {
      if (out.tasks == limit) {
        out.next = it->first;
        break;
      }
      it = left.erase(it);
      ++out.tasks;
    }
    return out;
  });
}

PurgedRecords MemoryStore::purge_records(EpochMs before, int limit) {
  return call([&] {
    PurgedRecords out;
    const auto purge = [&](auto& rows, std::int64_t& gone) {
      std::erase_if(rows, [&](const auto& row) {
        const bool old = row.at < before;
        out.more = out.more || (old && gone == limit);
        return old && gone < limit && ++gone > 0;
      });
    };
    purge(db_.records_.audit, out.audit);
    purge(db_.records_.events, out.events);
    out.bulks = db_.bulks_.purge(before);
    return out;
  });
}

void MemoryStore::record_event(int node, const SystemEvent& event) {
  return call([&] {
    SystemEvent row = event;
    row.node = db_.leases_.name(node);
    record(std::move(row));
  });
}

std::vector<SystemEvent> MemoryStore::events(int limit) {
  return call([&] {
    const auto& all = db_.records_.events;
    const auto most = static_cast<std::ptrdiff_t>(std::min(all.size(), static_cast<std::size_t>(limit)));
    return std::vector<SystemEvent>(all.rbegin(), all.rbegin() + most);
  });
}

std::string MemoryStore::setting(std::string_view name, std::string_view if_absent) {
  return call([&] {
    if (!if_absent.empty()) db_.settings_.emplace(name, if_absent);
    const auto it = db_.settings_.find(std::string(name));
    return it == db_.settings_.end() ? std::string() : it->second;
  });
}

void MemoryStore::set_setting(std::string_view name, std::string_view value) {
  return call([&] {
    if (value.empty()) {
      db_.settings_.erase(std::string(name));
    } else {
      db_.settings_[std::string(name)] = value;
    }
  });
}

}  // namespace rung
