// Tracks which deliveries of one channel are acked, and acks them in few frames: a contiguous run from the
// oldest unacked goes as one ack with `multiple`, the rest one by one. `multiple` is correct only if all
// lower tags are acked, so it is used up to the oldest gap and never beyond. Thread: one thread per object.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace rung::rabbit {

struct AckFrame {
  std::uint64_t tag = 0;
  bool multiple = false;
  bool operator==(const AckFrame&) const = default;
};

class AckWindow {
 public:
  void delivered() { states_.push_back(kOpen); }  // tags count up from 1

  // Appends the frames that ack `tags`. Ignores tags that were never delivered or are already acked.
  void ack(const std::vector<std::uint64_t>& tags, std::vector<AckFrame>& frames) {
    for (const std::uint64_t tag : tags) {
      if (tag >= base_ && tag - base_ < states_.size() && at(tag) == kOpen) at(tag) = kOwed;
    }
    std::uint64_t upto = 0;
    std::size_t run = 0;
    for (; !states_.empty() && states_.front() != kOpen; ++base_, states_.pop_front()) {
      if (states_.front() == kOwed) {
        upto = base_;
        ++run;
      }
    }
    if (run > 0) frames.push_back({upto, run > 1});
    for (const std::uint64_t tag : tags) {
      if (tag < base_ || tag - base_ >= states_.size() || at(tag) != kOwed) continue;
      at(tag) = kSent;
      frames.push_back({tag, false});
    }
  }

  // Settled in another way: no ack is due for it.
  void settled(std::uint64_t tag) {
    if (tag >= base_ && tag - base_ < states_.size()) at(tag) = kSent;
  }

  void settle_all() {
    base_ += states_.size();
    states_.clear();
  }

  std::size_t size() const { return states_.size(); }

 private:
  enum State : std::uint8_t { kOpen, kOwed, kSent };
  State& at(std::uint64_t tag) { return states_[static_cast<std::size_t>(tag - base_)]; }

  std::uint64_t base_ = 1;  // the tag of states_[0]
  std::deque<State> states_;
};

}  // namespace rung::rabbit
