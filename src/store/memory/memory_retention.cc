#include <algorithm>
#include <set>

#include "src/store/memory/memory_store_impl.h"

namespace rung {
namespace {

bool under_way(const Bulk& bulk) {
  return bulk.state == BulkState::running || bulk.state == BulkState::paused;
}

}  // namespace

Result<PurgeResult> MemoryStore::purge_finished(EpochMs before, const PurgeCursor& from, int limit) {
  return call([&] {
    using Key = std::pair<EpochMs, TaskId>;
    std::set<Key> finished;
    CauseChanges causes(db_.cause_book_);
    for (const auto& [id, row] : db_.tasks_) {
      const auto& at = row.task.finished_at;
      if (at && *at < before && Key(*at, id) > Key(from.at, from.id)) finished.emplace(*at, id);
    }
    PurgeResult out{0, from, static_cast<int>(finished.size()) > limit};
    int seen = 0;
    for (const auto& [at, id] : finished) {
      if (++seen > limit) break;
      out.last = {at, id};
      MemoryDb::Row& row = db_.tasks_.at(id);
      const auto names = [task = id](const MemoryDb::BulkRow& bulk) {
        return under_way(bulk.bulk) && std::ranges::find(bulk.ids, task) != bulk.ids.end();
      };
      if (row.task.state == State::parked || std::ranges::any_of(db_.bulks_, names)) continue;
      if (!row.intake_key.empty()) db_.keys_.erase(row.intake_key);
      db_.left_[id] = row.message;
      causes.removed(row.task.cause, row.task.state, 1);
      db_.tasks_.erase(id);
      ++out.tasks;
    }
    write_causes(causes, 0);
    return out;
  });
}

Result<PartitionsAdded> MemoryStore::add_partitions(std::span<const Partition> partitions) {
  return call([&] {
    for (const Partition& partition : partitions) {
      if (!db_.partitions_.empty() && partition.end <= db_.partitions_.back().end) continue;
      db_.partitions_.push_back(
          {partition.name, db_.partitions_.empty() ? TaskId{} : db_.partitions_.back().end, partition.end});
    }
    return PartitionsAdded::added;
  });
}

Result<PartitionDrop> MemoryStore::drop_partition(const Partition& partition) {
  return call([&] {
    const auto it = std::ranges::find(db_.partitions_, partition.end, &Partition::end);
    if (it == db_.partitions_.end()) return PartitionDrop::dropped;
    const auto task = db_.tasks_.lower_bound(it->from);
    if (task != db_.tasks_.end() && task->first < it->end) return PartitionDrop::kept;
    db_.left_.erase(db_.left_.lower_bound(it->from), db_.left_.lower_bound(it->end));
    const auto next = db_.partitions_.erase(it);
    if (next != db_.partitions_.end()) next->from = partition.from;
    return PartitionDrop::dropped;
  });
}

Result<Swept> MemoryStore::sweep(TaskId from, TaskId to, int limit) {
  return call([&] {
    Swept out;
    auto it = db_.left_.lower_bound(from);
    while (it != db_.left_.end() && it->first < to) {
      if (out.tasks == limit) {
        out.next = it->first;
        break;
      }
      it = db_.left_.erase(it);
      ++out.tasks;
    }
    return out;
  });
}

Result<PurgedRecords> MemoryStore::purge_records(EpochMs before, int limit) {
  return call([&] {
    PurgedRecords out;
    std::erase_if(db_.audit_, [&](const AuditRow& row) {
      const bool old = row.at < before;
      out.more = out.more || (old && out.audit == limit);
      return old && out.audit < limit && ++out.audit > 0;
    });
    std::erase_if(db_.events_, [&](const SystemEvent& event) {
      const bool old = event.at < before;
      out.more = out.more || (old && out.events == limit);
      return old && out.events < limit && ++out.events > 0;
    });
    for (MemoryDb::BulkRow& row : db_.bulks_) {
      const bool old = !under_way(row.bulk) && row.bulk.finished_at && *row.bulk.finished_at < before;
      if (!old || row.gone) continue;
      row.gone = true;
      row.ids.clear();
      ++out.bulks;
    }
    return out;
  });
}

Result<void> MemoryStore::record_event(int node, const SystemEvent& event) {
  auto done = call([&] {
    SystemEvent row = event;
    row.id = static_cast<std::int64_t>(db_.events_.size()) + 1;
    row.at = db_.now_locked();
    row.node = node_name(node);
    db_.events_.push_back(std::move(row));
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<SystemEvent>> MemoryStore::events(int limit) {
  return call([&] {
    const auto most = std::min(db_.events_.size(), static_cast<std::size_t>(limit));
    return std::vector<SystemEvent>(db_.events_.rbegin(),
                                    db_.events_.rbegin() + static_cast<std::ptrdiff_t>(most));
  });
}

Result<std::string> MemoryStore::setting(std::string_view name, std::string_view if_absent) {
  return call([&] {
    if (!if_absent.empty()) db_.settings_.emplace(name, if_absent);
    const auto it = db_.settings_.find(std::string(name));
    return it == db_.settings_.end() ? std::string() : it->second;
  });
}

Result<void> MemoryStore::set_setting(std::string_view name, std::string_view value) {
  auto done = call([&] {
    if (value.empty()) {
      db_.settings_.erase(std::string(name));
    } else {
      db_.settings_[std::string(name)] = value;
    }
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace rung
