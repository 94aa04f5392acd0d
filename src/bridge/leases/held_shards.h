// The shards that this instance holds: their epochs, which are in use, and which are about to be given back.
// Thread: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/core/base/require.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"
#include "src/store/leases.h"

namespace rung::bridge {

class HeldShards {
 public:
  int count() const { return count_; }
  // The epoch of our lease; 0 = none.
  std::uint64_t epoch(int shard) const { return slot(shard).epoch; }
  // Held, and not about to be given back.
  bool takes_work(int shard) const { return slot(shard).epoch != 0 && !slot(shard).leaving; }
  bool leaving(int shard) const { return slot(shard).leaving; }
  std::vector<int> list() const;
  std::vector<Lease> leases() const;
  // A shard that takes work, round-robin; -1 if there is none.
  int next();

  void add(const Lease& lease);
  void remove(int shard);
  void clear();

  void begin_use(int shard) { ++uses_[static_cast<std::size_t>(shard)]; }
  void end_use(int shard) {
    RUNG_REQUIRE(in_use(shard));
    --uses_[static_cast<std::size_t>(shard)];
  }
  bool in_use(int shard) const { return uses_[static_cast<std::size_t>(shard)] > 0; }

  // Marks `many` shards to be given back: those with the highest numbers, so that an instance that stays
  // small keeps the same shards. A leaving shard that has been in use for too long resumes work and another
  // one leaves instead, unless `all` must go.
  void plan_leaving(int many, bool all, BootMs now);

 private:
  struct Slot {
    std::uint64_t epoch = 0;  // 0 = not held
    bool leaving = false;     // to be given back: no new claims
    bool stuck = false;       // a publish of it got no answer while it was leaving
    BootMs leaving_since{0};
  };
  const Slot& slot(int shard) const { return slots_[static_cast<std::size_t>(shard)]; }
  Slot& slot(int shard) { return slots_[static_cast<std::size_t>(shard)]; }

  std::array<Slot, kShards> slots_{};
  std::array<int, kShards> uses_{};  // also of shards that are no longer held
  int count_ = 0;
  int next_ = 0;
};

}  // namespace rung::bridge
