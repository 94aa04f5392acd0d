// The tasks that are due soon, on timers. Each slot is an array of ids with one timer. Tasks due within
// seconds are in slots of 1 ms; later ones are in slots of about a second, which are split into fine slots as
// they come near. A million entries thus cost tens of bytes each and still fire to the ms. Thread: the
// loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/core/base/ids.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::io {

struct DueItem {
  TaskId id;
  EpochMs at;  // the database's clock
  int shard = 0;
  std::uint32_t queue = 0;  // the caller's number for the target
};

class DueHeap {
 public:
  // `fire` gets the items due within `ahead` by `clock`, never earlier, in batches; it may add() to the heap.
  DueHeap(Loop& loop, const DbClock& clock, std::function<void(std::vector<DueItem>)> fire, Ms ahead = Ms{0});
  ~DueHeap();

  void add(const DueItem& item);
  std::size_t size() const { return size_; }
  void clear();

  // Drops the slot that is due last, to bound the heap. Returns the time from which on the heap is
  // incomplete.
  std::optional<EpochMs> drop_latest();

  // The queues of all items, one for each.
  void each_queue(const std::function<void(std::uint32_t)>& tell) const;

  // Call about once a second: rearms the timers if the database's clock stepped or the machine slept (libuv's
  // clock stops then).
  void check_clock();

 private:
  struct Packed {  // 16 bytes
    TaskId id;
    std::int16_t offset = 0;  // ms after the start of the slot: below kCoarseMs
    std::int16_t shard = 0;
    std::uint32_t queue = 0;
  };
  struct Slot;
  using Slots = std::map<std::int64_t, std::unique_ptr<Slot>>;

  static constexpr std::int64_t kCoarseMs = 1024;
  static constexpr std::int64_t kNearMs = 3000;  // items due within this go to a fine slot at once

  Slot& slot(Slots& slots, std::int64_t begin, bool fine);
  void arm(Slot& slot);
  void on_timer(Slot& slot);
  std::int64_t skew() const;
  EpochMs fires_at(const Slot& slot) const;

  Loop& loop_;
  const DbClock& clock_;
  const std::function<void(std::vector<DueItem>)> fire_;
  const Ms ahead_;
  Slots fine_, coarse_;
  std::size_t size_ = 0;
  std::int64_t armed_skew_ = 0;  // database time minus timer time, when the timers were armed
};

}  // namespace rung::io
