#include <algorithm>

#include "src/store/memory/memory_store_impl.h"

namespace rung {

void MemoryDb::publish_events(OutgoingKinds kinds) {
  const std::lock_guard lock(mutex_);
  outgoing_kinds_ = kinds;
}

void MemoryStore::write_outgoing(OutgoingEvent event) {
  if (!db_.outgoing_kinds_.holds(event.kind)) return;
  event.id = ++db_.outgoing_ever_;
  event.at = db_.now_locked();
  db_.outgoing_.push_back(std::move(event));
}

Result<std::vector<OutgoingEvent>> MemoryStore::outgoing_events(int limit) {
  return call([&] {
    const auto most = std::min(db_.outgoing_.size(), static_cast<std::size_t>(limit));
    return std::vector<OutgoingEvent>(db_.outgoing_.begin(),
                                      db_.outgoing_.begin() + static_cast<std::ptrdiff_t>(most));
  });
}

Result<void> MemoryStore::forget_outgoing_events(std::span<const std::int64_t> ids) {
  auto done = call([&] {
    return std::erase_if(db_.outgoing_, [&](const OutgoingEvent& event) {
      return std::ranges::find(ids, event.id) != ids.end();
    });
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<int> MemoryStore::drop_outgoing_events(EpochMs before, int limit) {
  return call([&] {
    int left = limit;
    return static_cast<int>(std::erase_if(
        db_.outgoing_, [&](const OutgoingEvent& event) { return event.at < before && left-- > 0; }));
  });
}

}  // namespace rung
