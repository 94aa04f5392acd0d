#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "tests/support/memory/memory_store.h"

namespace rung {

AttachmentChange MemoryQueues::see(const AttachmentSighting& sighting, EpochMs now) {
  const auto known = attachments_.find(sighting.queue);
  AttachmentChange change = see_attachment(
      known == attachments_.end() ? std::nullopt : std::optional(known->second), sighting, now);
  if (change.record) attachments_[sighting.queue] = *change.record;
  return change;
}

Result<AttachmentRecords> MemoryStore::attachments(std::span<const std::string> queues) {
  return call([&] {
    AttachmentRecords out = db_.queues_.attachments();
    std::erase_if(out, [&](const auto& entry) {
      return !queues.empty() && std::ranges::find(queues, entry.first) == queues.end();
    });
    return out;
  });
}

Result<void> MemoryStore::see_attachments(std::span<const AttachmentSighting> seen) {
  return call([&] {
    for (const AttachmentSighting& one : seen) {
      if (auto event = db_.queues_.see(one, db_.now_()).event) record(*std::move(event));
    }
  });
}

Result<std::map<TaskId, Awaiting>> MemoryStore::awaiting(std::span<const TaskId> ids) {
  return call([&] {
    std::map<TaskId, Awaiting> out;
    for (const TaskId id : ids) {
      const MemoryTask* row = db_.tasks_.find(id);
      if (row == nullptr) continue;
      const auto attempt = row->attempts.find(row->task.attempt);
      const bool known = attempt != row->attempts.end();
      out.emplace(id, Awaiting{known ? attempt->second.published_at : std::nullopt, row->task.said});
    }
    return out;
  });
}

Result<std::vector<std::string>> MemoryStore::awaiting_queues(std::size_t most) {
  return call([&] {
    std::set<std::string> out;
    for (const auto& [id, row] : db_.tasks_.rows()) {
      if (row.task.state == State::awaiting && !row.task.queue.empty()) out.insert(row.task.queue);
    }
    while (out.size() > most) out.erase(std::prev(out.end()));
    return std::vector<std::string>(out.begin(), out.end());
  });
}

}  // namespace rung
