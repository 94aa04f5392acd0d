// Numbers the sessions of one intake, and says whether a delivery's session is still current:
// Broker::stands(). Thread: stands() from any; the rest from the consumer's own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "plugin/broker.h"
#include "src/core/time.h"

namespace rung::rabbit {

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

}  // namespace rung::rabbit
