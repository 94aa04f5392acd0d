#include "src/bridge/leases/held_shards.h"

namespace rung::bridge {
namespace {

// The longest that a leaving shard takes no new claims while a publish of it has no answer.
constexpr Ms kLeavingMost{3000};

}  // namespace

std::vector<int> HeldShards::list() const {
  std::vector<int> shards;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) shards.push_back(s);
  }
  return shards;
}

std::vector<Lease> HeldShards::leases() const {
  std::vector<Lease> leases;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) leases.push_back({s, slot(s).epoch});
  }
  return leases;
}

int HeldShards::next() {
  for (int i = 0; i < kShards; ++i) {
    const int shard = next_;
    next_ = (next_ + 1) % kShards;
    if (takes_work(shard)) return shard;
  }
  return -1;
}

void HeldShards::add(const Lease& lease) {
  remove(lease.shard);
  slot(lease.shard).epoch = lease.epoch;
  ++count_;
}

void HeldShards::remove(int shard) {
  if (slot(shard).epoch != 0) --count_;
  slot(shard) = {};
}

void HeldShards::clear() {
  slots_ = {};
  count_ = 0;
}

void HeldShards::plan_leaving(int many, bool all, BootMs now) {
  int leaving = 0;
  for (int s = kShards - 1; s >= 0; --s) {
    Slot& it = slot(s);
    if (it.epoch == 0) continue;
    const bool used = in_use(s);
    if (!all && it.leaving && used && now - it.leaving_since > kLeavingMost) it.stuck = true;
    it.stuck = it.stuck && used;
    const bool leaves = leaving < many && !it.stuck;
    if (leaves && !it.leaving) it.leaving_since = now;
    it.leaving = leaves;
    if (leaves) ++leaving;
  }
}

}  // namespace rung::bridge
