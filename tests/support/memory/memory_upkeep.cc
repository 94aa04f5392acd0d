// Attachments of queues, causes, counts.
#include <algorithm>
#include <iterator>
#include <set>

#include "src/core/base/result.h"
#include "tests/support/memory/memory_store.h"

namespace rung {

AttachmentRecords MemoryStore::attachments(std::span<const std::string> queues) {
  return call([&] {
    AttachmentRecords out = db_.attachments_;
    std::erase_if(out, [&](const auto& entry) {
      return !queues.empty() && std::ranges::find(queues, entry.first) == queues.end();
    });
    return out;
  });
}

void MemoryStore::see_attachments(std::span<const AttachmentSighting> seen) {
  return call([&] {
    for (const AttachmentSighting& one : seen) {
      const auto known = db_.attachments_.find(one.queue);
      AttachmentChange change = see_attachment(
          known == db_.attachments_.end() ? std::nullopt : std::optional(known->second), one, db_.now_());
      if (change.record) db_.attachments_[one.queue] = *change.record;
      if (change.event) record(*std::move(change.event));
    }
  });
}

std::map<TaskId, Awaiting> MemoryStore::awaiting(std::span<const TaskId> ids) {
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

std::vector<std::string> MemoryStore::awaiting_queues(std::size_t most) {
  return call([&] {
    std::set<std::string> out;
    for (const auto& [id, row] : db_.tasks_.rows()) {
      if (row.task.state == State::awaiting && !row.task.queue.empty()) out.insert(row.task.queue);
    }
    while (out.size() > most) out.erase(std::prev(out.end()));
    return std::vector<std::string>(out.begin(), out.end());
  });
}

CausesFolded MemoryStore::fold_causes(int) {
  return call([] { return CausesFolded{}; });
}

void MemoryStore::read_causes() {
  return call([&] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [id, row] : db_.causes_) all.emplace_back(id, row.queue);
    db_.cause_book_.load(all);
  });
}

void MemoryStore::add_counts(const CountBatch& batch) {
  RUNG_REQUIRE(batch.changes.size() <= CountBatch::kMost);
  return call([&] {
    if (repeats("counts", batch.maker, batch.id)) return;
    for (const auto& [queue, promised, activity] : batch.changes) {
      if (promised == PromiseCounts{}) continue;
      for (const Ms length : {kPromiseMinutes, kPromiseHour})
        db_.promises_[{queue, length, bucket_of(batch.at, length)}] += promised;
    }
  });
}

std::vector<PromiseRow> MemoryStore::promises() {
  return call([&] {
    std::vector<PromiseRow> out;
    for (const auto& [key, counts] : db_.promises_) {
      const auto& [queue, length, since] = key;
      const bool of_hour = length == kPromiseMinutes;
      if (since <= db_.now_() - (of_hour ? kPromiseHour : kPromiseDay)) continue;
      if (out.empty() || out.back().queue != queue) out.push_back({queue, {}, {}});
      (of_hour ? out.back().last_hour : out.back().last_day) += counts;
    }
    return out;
  });
}

int MemoryStore::forget(EpochMs now, int limit) {
  return call([&] {
    int gone = 0, left = limit, left_hours = limit;
    std::erase_if(db_.promises_, [&](const auto& entry) {
      const auto& [queue, length, since] = entry.first;
      const bool of_hour = length == kPromiseMinutes;
      int& may = of_hour ? left : left_hours;
      if (since > now - (of_hour ? kPromiseHour : kPromiseDay) || may == 0) return false;
      --may;
      ++gone;
      return true;
    });
    return gone;
  });
}

}  // namespace rung
