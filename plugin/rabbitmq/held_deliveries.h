// Limits the bytes of messages that the sink holds unacked. Messages beyond the limit are refused: they stay
// unacked, and the broker is asked to redeliver them once half of the limit is free. The prefetch counts
// messages, not bytes. Thread: one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rung::rabbit {

class HeldDeliveries {
 public:
  explicit HeldDeliveries(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // False: no room, requeue it. A single message is always accepted, whatever its size.
  bool take(std::uint64_t tag, std::size_t bytes) {
    if (bytes_ > 0 && bytes_ + bytes > max_bytes_) {
      to_requeue_.push_back(tag);
      return false;
    }
    bytes_ += bytes;
    held_.emplace(tag, bytes);
    return true;
  }
  // The message was acked. An unknown tag is ignored.
  void release(std::uint64_t tag) {
    if (const auto held = held_.extract(tag); !held.empty()) bytes_ -= held.mapped();
  }
  // The sink does not want it now.
  void requeue(std::uint64_t tag) {
    release(tag);
    to_requeue_.push_back(tag);
  }
  // Messages to request again now; empty as long as there is no room for them.
  std::vector<std::uint64_t> take_requeued() {
    if (to_requeue_.empty() || bytes_ > max_bytes_ / 2) return {};
    return std::exchange(to_requeue_, {});
  }
  void clear() {
    held_.clear();
    to_requeue_.clear();
    bytes_ = 0;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t max_bytes_;
  std::unordered_map<std::uint64_t, std::size_t> held_;  // a message's bytes by delivery tag
  std::size_t bytes_ = 0;                                // of all in held_
  std::vector<std::uint64_t> to_requeue_;                // unacked
};

}  // namespace rung::rabbit
