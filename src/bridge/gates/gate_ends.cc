#include "src/bridge/gates/gate_ends.h"

#include <algorithm>

namespace rung::bridge {

void GateEnds::set(const std::string& queue, std::optional<EpochMs> at) {
  if (const auto before = by_queue_.find(queue); before != by_queue_.end()) {
    if (before->second == at) return;
    by_time_.erase({before->second, queue});
    by_queue_.erase(before);
  }
  if (!at) return;
  by_queue_.emplace(queue, *at);
  by_time_.emplace(*at, queue);
  if (by_time_.begin()->second == queue) start_timer();
}

void GateEnds::take_due(const std::function<void(const std::string& queue)>& update) {
  const EpochMs now = clock_.now();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const std::string queue = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    by_queue_.erase(queue);
    update(queue);
  }
  start_timer();
}

void GateEnds::start_timer() {
  if (by_time_.empty()) return;
  const Ms wait = by_time_.begin()->first - clock_.now();
  if (wait < kTick) timer_.start(std::max(wait, Ms{1}));
}

}  // namespace rung::bridge
