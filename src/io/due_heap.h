// The near horizon: what is due soon, on timers. One per slot, each slot an array of
// ids: what is due within seconds stands in slots of 1 ms, what is later in slots of about a second that are
// spread into fine ones as they near, so that a million entries cost tens of bytes each and still fire to the
// ms. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/core/db_clock.h"
#include "src/core/ids.h"
#include "src/io/loop.h"

namespace rung::io {

struct DueItem {
  TaskId id;
  EpochMs at;  // by the database's clock
  int shard = 0;
  std::uint32_t queue = 0;  // the caller's number of its target
};

class DueHeap {
 public:
  // `fire` gets what is due within `ahead`, never earlier by `clock`, in batches; it may add() to the heap.
  DueHeap(Loop& loop, const DbClock& clock, std::function<void(std::vector<DueItem>)> fire, Ms ahead = Ms{0});
  ~DueHeap();

  void add(const DueItem& item);
  std::size_t size() const { return size_; }
  void clear();

  // Lets go of the slot that is due last; answers the time from which on the heap is now incomplete. For the
  // bound.
  std::optional<EpochMs> drop_latest();

  // Call about once a second: where the database's clock stepped, or the machine slept (libuv's clock stands
  // still then), the timers are armed anew.
  void check_clock();

 private:
  struct Packed {  // 16 bytes
    TaskId id;
    std::int16_t offset = 0;  // ms after the slot's begin: below kCoarseMs
    std::int16_t shard = 0;
    std::uint32_t queue = 0;
  };
  struct Slot;
  using Slots = std::map<std::int64_t, std::unique_ptr<Slot>>;

  static constexpr std::int64_t kCoarseMs = 1024;
  static constexpr std::int64_t kNearMs = 3000;  // what is due within this goes to a fine slot at once

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
  std::int64_t armed_skew_ = 0;  // database time minus that of the timers, when the timers were armed
};

}  // namespace rung::io
