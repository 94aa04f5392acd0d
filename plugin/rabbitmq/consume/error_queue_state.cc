#include "plugin/rabbitmq/consume/error_queue_state.h"

#include <algorithm>
#include <utility>

namespace rung::rabbit {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Ms kLookAtMissing{seconds{5}};  // many frameworks declare an error queue with the first failure
constexpr Ms kLookAtPresent{minutes{1}};

// `first`, doubled `times` times, but at most `longest`.
Ms doubled(Ms first, int times, Ms longest) { return std::min(first * (1 << std::min(times, 10)), longest); }

}  // namespace

void ErrorQueueState::looking(BootMs now) { next_look_ = now + kLookAtPresent; }

void ErrorQueueState::exists(BootMs now) {
  exists_ = true;
  next_look_ = now + kLookAtPresent;
}

void ErrorQueueState::missing(BootMs now) {
  gone(now + kLookAtMissing);
  problem_.clear();
  refusals_ = 0;
}

void ErrorQueueState::refused(std::string reason, BootMs now) {
  gone(now + doubled(kAfterRefusal, refusals_, kLongestAfterRefusal));
  ++refusals_;
  problem_ = std::move(reason);
}

void ErrorQueueState::consuming() {
  consumed_ = true;
  problem_.clear();
  refusals_ = 0;
}

void ErrorQueueState::cancelled(BootMs now) { gone(now + kShortestPause); }

void ErrorQueueState::gone(BootMs next_look) {
  exists_ = consumed_ = false;
  next_look_ = next_look;
}

}  // namespace rung::rabbit
