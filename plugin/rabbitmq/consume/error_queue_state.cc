#include "plugin/rabbitmq/consume/error_queue_state.h"

#include <algorithm>
#include <utility>

namespace rung::rabbit {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Ms kLookAtMissing{seconds{5}};  // many frameworks declare an error queue with the first failure
constexpr Ms kLookAtPresent{minutes{1}};
// The copies go back meanwhile, and instances do not take them from each other all the time. A failure that
// comes meanwhile waits.
constexpr Ms kAfterLeft{seconds{3}};
// A message that came when another one was taken out changes no count.
constexpr Ms kLongestLeft{minutes{10}};

// `first`, doubled `times` times, but at most `longest`.
Ms doubled(Ms first, int times, Ms longest) { return std::min(first * (1 << std::min(times, 10)), longest); }

}  // namespace

void ErrorQueueState::looking(BootMs now) { next_look_ = now + kLookAtPresent; }

void ErrorQueueState::exists(std::size_t messages, std::size_t consumers, BootMs now) {
  exists_ = true;
  if (left_ && (messages > *left_ || now - left_at_ >= kLongestLeft)) left_.reset();
  // What another instance holds comes back; what people took out does not.
  if (left_ && consumers == 0) left_ = messages;
  next_look_ = now + (left_ ? kShortestPause : kLookAtPresent);
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

void ErrorQueueState::left(std::size_t copies, BootMs now) {
  if (!exists_) return;
  left_ = copies;
  left_at_ = now;
  next_look_ = now + kAfterLeft;
}

void ErrorQueueState::gone(BootMs next_look) {
  exists_ = consumed_ = false;
  left_.reset();
  next_look_ = next_look;
}

}  // namespace rung::rabbit
