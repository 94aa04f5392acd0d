#include <algorithm>

#include "src/store/audit.h"
#include "tests/support/memory/memory_store_impl.h"

namespace rung {

Result<std::vector<AuditRow>> MemoryStore::audit(TaskId id) {
  return call([&] {
    std::vector<AuditRow> out;
    for (const AuditRow& row : db_.records_.audit()) {
      if (row.task == id) out.push_back(row);
    }
    return out;
  });
}

Result<AuditPage> MemoryStore::audit_log(const AuditFilter& filter) {
  return call([&] {
    const auto place_of = [](const AuditRow& row) { return AuditPlace{row.at, row.id}; };
    std::vector<AuditRow> all = db_.records_.audit();
    std::erase_if(all, [&](const AuditRow& row) {
      return (row.task.value == 0 ? 0 : row.bulk) != filter.bulk ||
             (filter.since && row.at < *filter.since) || (filter.until && row.at >= *filter.until) ||
             (filter.after && place_of(row) >= *filter.after);
    });
    std::ranges::sort(all, std::ranges::greater{}, place_of);
    AuditPage page;
    int read = 0;
    for (const AuditRow& row : all) {
      if (page.rows.size() == static_cast<std::size_t>(filter.limit)) {
        page.next = place_of(page.rows.back().change);
        break;
      }
      const MemoryTask* task = db_.tasks_.find(row.task);
      const std::string queue = task == nullptr ? paused_queue(row) : task->task.queue;
      const bool anywhere = row.task.value == 0 && row.bulk != 0 && queue.empty();
      const bool wanted = (filter.queue.empty() || queue == filter.queue || anywhere) &&
                          (filter.what.empty() || row.what == filter.what) && row.who.starts_with(filter.who);
      if (wanted) page.rows.push_back({row, queue});
      if (!filter.selects() || ++read < kMostAuditRead) continue;
      page.next = place_of(row);
      break;
    }
    return page;
  });
}

}  // namespace rung
