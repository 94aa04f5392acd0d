#include <algorithm>

#include "src/store/memory/memory_store_impl.h"

namespace rung {

Result<LiveAnswer> MemoryStore::live(const LiveQuestion& question) {
  return call([&] {
    LiveAnswer out;
    if (!db_.tasks_.empty()) out.newest_task = db_.tasks_.rbegin()->first.value;
    out.newest_audit = db_.audited_;
    for (const AuditRow& row : db_.audit_) {
      if (row.id > question.after_audit && out.changed_by_hand.size() <= LiveAnswer::kMost)
        out.changed_by_hand.push_back(row.task);
    }
    for (const SystemEvent& event : db_.events_) {
      out.newest_event = std::max(out.newest_event, event.id);
      if (event.id > question.after_event && out.event_kinds.size() <= LiveAnswer::kMost)
        out.event_kinds.push_back(event.kind);
    }
    for (const TaskId id : question.watched) {
      const auto found = db_.tasks_.find(id);
      if (found != db_.tasks_.end()) out.versions[id] = found->second.task.version;
    }
    for (const MemoryDb::BulkRow& row : db_.bulks_) {
      const bool open = row.bulk.state == BulkState::running || row.bulk.state == BulkState::paused;
      if (open) out.bulks[row.bulk.id] = row.bulk.done;
    }
    return out;
  });
}

}  // namespace rung
