#include "src/bridge/changes/left_unacked.h"

#include <algorithm>
#include <utility>

namespace rung::bridge {

LeftUnacked::LeftUnacked(io::Loop& loop, Health& health, std::function<void()> after, Ms every)
    : health_(health), after_(std::move(after)), every_(every), timer_(loop, [this] { turn(); }) {}

void LeftUnacked::add(const IntakeSession& session, const std::string& reason, std::function<void()> again) {
  if (draining_) return;
  waiting_.push_back({session, std::move(again)});
  tell(reason);
  if (!timer_.active()) timer_.start(every_, every_);
}

void LeftUnacked::tell(const std::string& reason) {
  health_.set("unrecorded", std::to_string(waiting_.size()) +
                                " deliveries or results could not be recorded; retrying every " +
                                std::to_string(every_.count() / 1000) + " s: " + reason);
}

void LeftUnacked::forget_before(const IntakeSession& session) {
  std::erase_if(waiting_, [&](const Item& item) { return item.session.before(session); });
}

void LeftUnacked::drain() {
  draining_ = true;
  timer_.stop();
  waiting_.clear();
}

void LeftUnacked::turn() {
  // No retry failed since the last turn: the problem is over.
  if (waiting_.empty()) {
    timer_.stop();
    return health_.clear("unrecorded");
  }
  for (std::size_t left = std::min(waiting_.size(), kMostAtOnce); left > 0; --left) {
    const Item item = std::move(waiting_.front());
    waiting_.pop_front();
    item.again();
  }
  after_();
}

}  // namespace rung::bridge
