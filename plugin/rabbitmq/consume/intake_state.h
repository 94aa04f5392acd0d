// The state of one consumer: whether it consumes, which deliveries are still valid, and how many bytes of
// them are unacked.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// Whether to consume, as ordered by the consumer's owner: pause, resume, or stop for good.
// Thread: stop, pause and stopped from any; the rest from the consumer's own.
class IntakeSwitch {
 public:
  void stop() { stopped_.store(true, std::memory_order_release); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  void pause(bool yes) {
    // In this order: a next() in between returns the deliveries once, not twice.
    paused_.store(yes, std::memory_order_release);
    if (yes) return_due_.store(true, std::memory_order_release);
  }

  // A new connection: the end of the old one has returned its unacked messages.
  void begin_connection() {
    return_due_.store(false, std::memory_order_release);
    cancelled_ = false;
    consuming_ = !paused_.load(std::memory_order_acquire);
  }
  bool consuming() const { return consuming_; }  // as of the last Step; not updated by stop()
  // True once per connection after stop(): cancel its consumers now.
  bool take_cancel() { return stopped() && !std::exchange(cancelled_, true); }

  // What to do now. A pause that began and ended since the last call still returns the deliveries: its caller
  // has already dropped them.
  struct Step {
    bool return_deliveries = false;
    bool consume = false;  // start consuming again
    bool nothing() const { return !return_deliveries && !consume; }
  };
  Step next() {
    if (stopped()) return {};
    const bool due = return_due_.exchange(false, std::memory_order_acq_rel);
    const bool paused = paused_.load(std::memory_order_acquire);
    Step step;
    step.return_deliveries = consuming_ && (due || paused);
    step.consume = !paused && (!consuming_ || step.return_deliveries);
    if (!step.nothing()) consuming_ = step.consume;
    return step;
  }

 private:
  std::atomic<bool> stopped_{false}, paused_{false};
  std::atomic<bool> return_due_{false};  // paused since the last check, if only briefly

  // Used by the consumer's thread only.
  bool consuming_ = true;
  bool cancelled_ = false;  // stop() has been carried out on this connection
};

// Numbers the sessions of one intake, and says whether a delivery's session is still current:
// Broker::stands(). Thread: stands() from any; the rest from the consumer's own.
class IntakeEpoch {
 public:
  // After half a heartbeat without a turn, the broker may have given up the connection.
  IntakeEpoch(Ms heartbeat, std::uint8_t intake)
      : stall_timeout_(std::max(heartbeat / 2, kLeastStall)), intake_(intake) {}

  IntakeSession session() const { return {number_, intake_}; }
  bool stands(const IntakeSession& session, BootMs now) const {
    return session.intake == intake_ && standing_.load(std::memory_order_acquire) == session.number &&
           now.ms - last_turn_.load(std::memory_order_acquire) <= stall_timeout_.count();
  }
  Ms stall_timeout() const { return stall_timeout_; }

  void next() { ++number_; }
  // Deliveries of this epoch are valid from now on.
  void stand() { standing_.store(number_, std::memory_order_release); }
  void end() { standing_.store(0, std::memory_order_release); }

  // The consumer's thread is running. Also called after a call to the broker, which may wait longer.
  void touch(BootMs now) { last_turn_.store(now.ms, std::memory_order_release); }
  // The same. Returns how long the thread did not run, if that is too long: messages that it reads then may
  // have been delivered to another consumer long ago.
  std::optional<Ms> touch_and_check(BootMs now) {
    const Ms away{now.ms - last_turn_.exchange(now.ms, std::memory_order_acq_rel)};
    return away > stall_timeout_ ? std::optional(away) : std::nullopt;
  }

 private:
  static constexpr Ms kLeastStall{1000};  // a loaded machine may also delay a thread for a while

  const Ms stall_timeout_;
  const std::uint8_t intake_;
  std::uint32_t number_ = 0;
  std::atomic<std::uint32_t> standing_{0};  // number_; 0 = no current connection
  std::atomic<std::int64_t> last_turn_{0};  // BootMs
};

// Limits the bytes of messages that the sink holds unacked. Messages beyond the limit are refused: they stay
// unacked, and the broker is asked to redeliver them once half of the limit is free. The prefetch counts
// messages, not bytes. Thread: one thread per object.
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
