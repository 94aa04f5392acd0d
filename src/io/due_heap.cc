#include "src/io/due_heap.h"

#include <cstdlib>
#include <utility>

namespace rung::io {

struct DueHeap::Slot {
  Slot(DueHeap& owner, std::int64_t slot_begin, bool is_fine)
      : heap(owner), begin(slot_begin), fine(is_fine), timer(owner.loop_, [this] { heap.on_timer(*this); }) {}

  DueHeap& heap;
  const std::int64_t begin;  // database ms
  const bool fine;
  std::vector<Packed> items;
  Timer timer;
};

DueHeap::DueHeap(Loop& loop, const DbClock& clock, std::function<void(std::vector<DueItem>)> fire, Ms ahead)
    : loop_(loop), clock_(clock), fire_(std::move(fire)), ahead_(ahead), armed_skew_(skew()) {}

DueHeap::~DueHeap() = default;

std::int64_t DueHeap::skew() const { return clock_.now().ms - loop_.timer_clock().count(); }

DueHeap::Slot& DueHeap::slot(Slots& slots, std::int64_t begin, bool fine) {
  auto& found = slots[begin];
  if (!found) {
    found = std::make_unique<Slot>(*this, begin, fine);
    arm(*found);
  }
  return *found;
}

EpochMs DueHeap::fires_at(const Slot& s) const {
  // A coarse slot is split before its first entry is due.
  return EpochMs{s.fine ? s.begin : s.begin - kNearMs / 2} - ahead_;
}

void DueHeap::arm(Slot& s) { s.timer.start(fires_at(s) - clock_.now()); }

void DueHeap::add(const DueItem& item) {
  const bool fine = item.at - ahead_ - clock_.now() <= Ms{kNearMs};
  const std::int64_t begin = fine ? item.at.ms : item.at.ms / kCoarseMs * kCoarseMs;
  slot(fine ? fine_ : coarse_, begin, fine)
      .items.push_back({item.id, static_cast<std::int16_t>(item.at.ms - begin),
                        static_cast<std::int16_t>(item.shard), item.queue});
  ++size_;
}

void DueHeap::on_timer(Slot& s) {
  const EpochMs now = clock_.now();
  const EpochMs wanted = fires_at(s);
  if (now < wanted) {  // libuv's rounding was early, or the clock was corrected: never fire early
    s.timer.start(wanted - now);
    return;
  }
  Slots& slots = s.fine ? fine_ : coarse_;
  const auto node = slots.extract(s.begin);  // keeps the slot alive to the end of this function
  const Slot& gone = *node.mapped();
  size_ -= gone.items.size();
  std::vector<DueItem> due;
  if (gone.fine) due.reserve(gone.items.size());
  for (const Packed& p : gone.items) {
    const DueItem item{p.id, {gone.begin + p.offset}, p.shard, p.queue};
    if (gone.fine) {
      due.push_back(item);
    } else {
      add(item);
    }
  }
  if (!due.empty()) fire_(std::move(due));
}

void DueHeap::clear() {
  fine_.clear();
  coarse_.clear();
  size_ = 0;
}

std::optional<EpochMs> DueHeap::drop_latest() {
  Slots& slots = coarse_.empty() ? fine_ : coarse_;
  if (slots.empty()) return std::nullopt;
  const auto last = std::prev(slots.end());
  const EpochMs begin{last->first};
  size_ -= last->second->items.size();
  slots.erase(last);
  return begin;
}

void DueHeap::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  for (const Slots* slots : {&fine_, &coarse_}) {
    for (const auto& [begin, slot] : *slots) {
      for (const Packed& item : slot->items) tell(item.queue);
    }
  }
}

void DueHeap::check_clock() {
  constexpr std::int64_t kTolerated = 5;
  const std::int64_t now = skew();
  if (std::abs(now - armed_skew_) <= kTolerated) return;
  armed_skew_ = now;
  for (Slots* slots : {&fine_, &coarse_}) {
    for (auto& [begin, s] : *slots) arm(*s);
  }
}

}  // namespace rung::io
