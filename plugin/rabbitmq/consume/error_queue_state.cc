#include "plugin/rabbitmq/consume/error_queue_state.h"

#include <algorithm>
#include <utility>

namespace rung::rabbit {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Ms kLookAtMissing{seconds{5}};  // many frameworks declare an error queue with the first failure
constexpr Ms kLookAtPresent{minutes{1}};
constexpr Ms kShortestRest{seconds{1}};       // the copies go back meanwhile
constexpr Ms kLongestUnsettled{seconds{10}};  // a failure that comes meanwhile waits as long
constexpr std::size_t kLooksCompared = 5;

// `first`, doubled `times` times, but at most `longest`.
Ms doubled(Ms first, int times, Ms longest) { return std::min(first * (1 << std::min(times, 10)), longest); }

}  // namespace

bool RestWatch::over(std::size_t messages, BootMs now) {
  if (now - since_ >= kLongest) return true;
  if (!settled_) {
    settled_ = messages == copies_;
    if (!settled_) return now - since_ >= doubled(kShortestRest, unsettled_, kLongestUnsettled);
  }
  const bool more = !last_.empty() && messages > *std::ranges::max_element(last_);
  last_.push_back(messages);
  if (last_.size() > kLooksCompared) last_.pop_front();
  return more;
}

void ErrorQueueState::looking(BootMs now) { next_look_ = now + kLookAtPresent; }

void ErrorQueueState::exists(std::size_t messages, BootMs now) {
  exists_ = true;
  if (rest_ && rest_->over(messages, now)) {
    unsettled_ = rest_->settled() ? 0 : unsettled_ + 1;
    rest_.reset();
  }
  next_look_ = now + (rest_ ? kShortestPause : kLookAtPresent);
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

void ErrorQueueState::rest(std::size_t copies, BootMs now) {
  if (!exists_) return;
  rest_.emplace(now, copies, unsettled_);
  next_look_ = now + kShortestRest;
}

void ErrorQueueState::gone(BootMs next_look) {
  exists_ = consumed_ = false;
  rest_.reset();
  unsettled_ = 0;
  next_look_ = next_look;
}

}  // namespace rung::rabbit
