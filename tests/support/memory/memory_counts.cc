#include <utility>

#include "src/core/base/result.h"
#include "tests/support/memory/memory_store.h"

namespace rung {

void MemoryCounts::add(const CountBatch& batch) {
  if (std::exchange(batches_[batch.maker], batch.id) == batch.id) return;
  for (const auto& [queue, promised, activity] : batch.changes) {
    if (promised == PromiseCounts{}) continue;
    for (const Ms length : {kPromiseMinutes, kPromiseHour})
      promises_[{queue, length, bucket_of(batch.at, length)}] += promised;
  }
}

std::vector<PromiseRow> MemoryCounts::promises(EpochMs now) const {
  std::vector<PromiseRow> out;
  for (const auto& [key, counts] : promises_) {
    const auto& [queue, length, since] = key;
    const bool of_hour = length == kPromiseMinutes;
    if (since <= now - (of_hour ? kPromiseHour : kPromiseDay)) continue;
    if (out.empty() || out.back().queue != queue) out.push_back({queue, {}, {}});
    (of_hour ? out.back().last_hour : out.back().last_day) += counts;
  }
  return out;
}

int MemoryCounts::forget(EpochMs now, int limit) {
  int gone = 0, left = limit, left_hours = limit;
  std::erase_if(promises_, [&](const auto& entry) {
    const auto& [queue, length, since] = entry.first;
    const bool of_hour = length == kPromiseMinutes;
    int& may = of_hour ? left : left_hours;
    if (since > now - (of_hour ? kPromiseHour : kPromiseDay) || may == 0) return false;
    --may;
    ++gone;
    return true;
  });
  return gone;
}

Result<void> MemoryStore::add_counts(const CountBatch& batch) {
  RUNG_REQUIRE(batch.changes.size() <= CountBatch::kMost);
  return call([&] { db_.counts_.add(batch); });
}

Result<std::vector<PromiseRow>> MemoryStore::promises() {
  return call([&] { return db_.counts_.promises(db_.now_()); });
}

Result<int> MemoryStore::forget(EpochMs now, int limit) {
  return call([&] { return db_.counts_.forget(now, limit); });
}

}  // namespace rung
