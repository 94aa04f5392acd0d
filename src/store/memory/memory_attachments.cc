#include <algorithm>
#include <utility>

#include "src/core/machine/machine.h"
#include "src/store/memory/memory_store_impl.h"

namespace rung {

Result<std::vector<AttachmentRecord>> MemoryStore::attachments(std::span<const std::string> queues) {
  return call([&] {
    std::vector<AttachmentRecord> out;
    for (const auto& [queue, record] : db_.attachments_) {
      if (queues.empty() || std::ranges::find(queues, queue) != queues.end()) out.push_back(record);
    }
    return out;
  });
}

Result<std::vector<AttachmentRecord>> MemoryStore::see_attachments(std::span<const AttachmentSighting> seen) {
  return call([&] {
    std::map<std::string, AttachmentRecord> out;
    for (const AttachmentSighting& one : seen) {
      const auto it = db_.attachments_.find(one.queue);
      const auto before = it == db_.attachments_.end() ? std::nullopt : std::optional(it->second);
      AttachmentChange change = see_attachment(before, one, db_.now_locked());
      if (change.record) db_.attachments_[one.queue] = *change.record;
      if (change.event) record(*std::move(change.event));
      if (change.record || before) out[one.queue] = change.record ? *change.record : *before;
    }
    std::vector<AttachmentRecord> records;
    for (auto& [queue, record] : out) records.push_back(std::move(record));
    return records;
  });
}

Result<std::map<TaskId, EpochMs>> MemoryStore::published_at(std::span<const TaskId> ids) {
  return call([&] {
    std::map<TaskId, EpochMs> out;
    for (const TaskId id : ids) {
      const auto row = db_.tasks_.find(id);
      if (row == db_.tasks_.end()) continue;
      const auto attempt = row->second.attempts.find(row->second.task.attempt);
      if (attempt != row->second.attempts.end() && attempt->second.published_at)
        out.emplace(id, *attempt->second.published_at);
    }
    return out;
  });
}

Result<std::map<std::string, std::int64_t>> MemoryStore::held_silences() {
  return call([&] {
    std::map<std::string, std::int64_t> out;
    for (const auto& [id, row] : db_.tasks_) {
      if (is_silence_held(row.task)) ++out[row.task.queue];
    }
    return out;
  });
}

Result<std::vector<RemovedQueue>> MemoryStore::name_queues(std::span<const NamedQueue> named) {
  return call([&] {
    std::map<std::string, Silence> before = std::exchange(db_.named_queues_, {});
    for (const NamedQueue& one : named) {
      before.erase(one.queue);
      db_.removed_queues_.erase(one.queue);
      db_.named_queues_[one.queue] = one.silence;
    }
    std::vector<RemovedQueue> out;
    for (const auto& [queue, removed] : db_.removed_queues_) out.push_back(removed);
    for (const auto& [queue, silence] : before) {
      RemovedQueue removed{queue, silence, db_.now_locked()};
      db_.removed_queues_[queue] = removed;
      removed.is_new = true;
      for (const auto& [id, row] : db_.tasks_) {
        if (row.task.queue != queue) continue;
        removed.scheduled += row.task.state == State::scheduled ? 1 : 0;
        removed.publishing += row.task.state == State::publishing ? 1 : 0;
        removed.awaiting += row.task.state == State::awaiting ? 1 : 0;
      }
      if (auto event = event_of(removed)) record(*std::move(event));
      out.push_back(std::move(removed));
    }
    return out;
  });
}

}  // namespace rung
