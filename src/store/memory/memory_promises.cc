#include <utility>

#include "src/core/base/require.h"
#include "src/store/memory/memory_store_impl.h"

namespace rung {

Result<void> MemoryStore::add_promises(const PromiseBatch& batch) {
  RUNG_REQUIRE(batch.changes.size() <= PromiseBatch::kMost);
  auto done = call([&] {
    if (std::exchange(db_.promise_batches_[batch.maker], batch.id) == batch.id) return false;
    for (const auto& [queue, more] : batch.changes) {
      for (const Ms length : {kPromiseMinutes, kPromiseHour})
        db_.promises_[{queue, length, promise_bucket(batch.at, length)}] += more;
    }
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<PromiseRow>> MemoryStore::promises() {
  return call([&] {
    std::vector<PromiseRow> out;
    const EpochMs now = db_.now_locked();
    for (const auto& [key, counts] : db_.promises_) {
      const auto& [queue, length, since] = key;
      const bool of_hour = length == kPromiseMinutes;
      if (since <= now - (of_hour ? kPromiseHour : kPromiseDay)) continue;
      if (out.empty() || out.back().queue != queue) out.push_back({queue, {}, {}});
      (of_hour ? out.back().last_hour : out.back().last_day) += counts;
    }
    return out;
  });
}

Result<int> MemoryStore::forget_promises(EpochMs now, int limit) {
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
