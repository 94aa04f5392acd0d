#include <algorithm>

#include "tests/support/memory/memory_store_impl.h"

namespace rung {

Result<LiveAnswer> MemoryStore::live(const LiveQuestion& question) {
  return call([&] {
    LiveAnswer out;
    if (const auto& all = db_.tasks_.rows(); !all.empty()) out.newest_task = all.rbegin()->first.value;
    out.newest_audit = db_.records_.newest_audit();
    for (const AuditRow& row : db_.records_.audit()) {
      if (row.id > question.after_audit && out.changed_by_hand.size() <= LiveAnswer::kMost)
        out.changed_by_hand.push_back(row.task);
    }
    for (const SystemEvent& event : db_.records_.events()) {
      out.newest_event = std::max(out.newest_event, event.id);
      if (event.id > question.after_event && out.event_kinds.size() <= LiveAnswer::kMost)
        out.event_kinds.push_back(event.kind);
    }
    for (const TaskId id : question.watched) {
      if (const MemoryTask* found = db_.tasks_.find(id)) out.versions[id] = found->task.version;
    }
    for (const MemoryBulks::Row& row : db_.bulks_.rows()) {
      if (row.is_open()) out.bulks[row.bulk.id] = row.bulk.done;
    }
    return out;
  });
}

}  // namespace rung
