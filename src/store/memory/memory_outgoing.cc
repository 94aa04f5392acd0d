#include <algorithm>
#include <utility>

#include "src/store/memory/memory_store_impl.h"

namespace rung {

void MemoryRecords::write(OutgoingEvent event, EpochMs now) {
  if (!wanted_.holds(event.kind)) return;
  event.id = ++outgoing_ever_;
  event.at = now;
  outgoing_.push_back(std::move(event));
}

void MemoryRecords::forget_outgoing(std::span<const std::int64_t> ids) {
  std::erase_if(outgoing_,
                [&](const OutgoingEvent& event) { return std::ranges::find(ids, event.id) != ids.end(); });
}

int MemoryRecords::drop_outgoing(EpochMs before, int limit) {
  int left = limit;
  return static_cast<int>(
      std::erase_if(outgoing_, [&](const OutgoingEvent& event) { return event.at < before && left-- > 0; }));
}

Result<std::vector<OutgoingEvent>> MemoryStore::outgoing_events(int limit) {
  return call([&] {
    const auto& all = db_.records_.outgoing();
    const auto most = static_cast<std::ptrdiff_t>(std::min(all.size(), static_cast<std::size_t>(limit)));
    return std::vector<OutgoingEvent>(all.begin(), all.begin() + most);
  });
}

Result<void> MemoryStore::forget_outgoing_events(std::span<const std::int64_t> ids) {
  return call([&] { db_.records_.forget_outgoing(ids); });
}

Result<int> MemoryStore::drop_outgoing_events(EpochMs before, int limit) {
  return call([&] { return db_.records_.drop_outgoing(before, limit); });
}

}  // namespace rung
