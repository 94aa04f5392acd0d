// The state of one consumer: whether it consumes, which deliveries are still valid, and which are unacked.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection.h"
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

// The deliveries of one channel that are unacked: their bytes, and the frames that settle them.
//
// The bytes that the sink holds are limited. Messages beyond the limit are refused: they stay unacked, and
// the broker is asked to redeliver them once half of the limit is free. The prefetch counts messages, not
// bytes.
//
// Acks go in as few frames as the protocol allows: those below the oldest that is still unacked go as one ack
// with `multiple`, which is correct only if all lower tags are settled; the rest one by one. Requeues are
// nacks, not rejects: since 4.3 RabbitMQ counts only rejects towards a quorum queue's delivery limit.
//
// Tags that are unknown or already settled are ignored. Thread: one thread per object.
class Unacked {
 public:
  explicit Unacked(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void delivered(std::uint64_t tag) { open_.emplace_hint(open_.end(), tag, 0); }  // tags count up from 1
  // The sink gets it. False: no room, it is requeued. A single message is always taken, whatever its size.
  bool take(std::uint64_t tag, std::size_t bytes) {
    if (bytes_ > 0 && bytes_ + bytes > max_bytes_) {
      to_requeue_.push_back(tag);
      return false;
    }
    bytes_ += bytes;
    open_[tag] = bytes;
    return true;
  }
  // The sink does not want it now.
  void requeue(std::uint64_t tag) {
    const auto one = open_.find(tag);
    if (one == open_.end()) return;
    bytes_ -= std::exchange(one->second, 0);
    to_requeue_.push_back(tag);
  }

  void write_acks(std::vector<std::uint64_t> tags, std::string& out) {
    std::erase_if(tags, [this](std::uint64_t tag) { return !settle(tag); });
    std::ranges::sort(tags);
    const auto single = open_.empty() ? tags.end() : std::ranges::lower_bound(tags, open_.begin()->first);
    if (single != tags.begin())
      put_settle(out, AMQP_BASIC_ACK_METHOD, *std::prev(single),
                 single - tags.begin() > 1 ? kMultiple : std::uint8_t{0});
    for (auto tag = single; tag != tags.end(); ++tag) put_settle(out, AMQP_BASIC_ACK_METHOD, *tag, 0);
  }
  // Of the messages to request again, if there is room for them.
  void write_requeues(std::string& out) {
    if (bytes_ > max_bytes_ / 2) return;
    for (const std::uint64_t tag : std::exchange(to_requeue_, {})) {
      if (settle(tag)) put_settle(out, AMQP_BASIC_NACK_METHOD, tag, kRequeue);
    }
  }
  void requeue_all(std::string& out) {
    put_settle(out, AMQP_BASIC_NACK_METHOD, 0, kMultiple | kRequeue);  // tag 0: all
    clear();
  }
  // The channel has ended.
  void clear() {
    open_.clear();
    to_requeue_.clear();
    bytes_ = 0;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  // Bits of basic.ack and basic.nack; an ack has only the first.
  static constexpr std::uint8_t kMultiple = 1, kRequeue = 2;

  // Whether it was unacked until now.
  bool settle(std::uint64_t tag) {
    const auto one = open_.find(tag);
    if (one == open_.end()) return false;
    bytes_ -= one->second;
    open_.erase(one);
    return true;
  }
  // basic.ack or basic.nack: both have the same layout.
  static void put_settle(std::string& out, std::uint32_t method, std::uint64_t tag, std::uint8_t bits) {
    constexpr std::uint32_t kPayload = 4 + 8 + 1;
    put8(out, AMQP_FRAME_METHOD);
    put16(out, kChannel);
    put32(out, kPayload);
    put32(out, method);
    put64(out, tag);
    put8(out, bits);
    put8(out, AMQP_FRAME_END);
  }

  const std::size_t max_bytes_;
  std::map<std::uint64_t, std::size_t> open_;  // bytes by tag; 0 = the sink does not hold it
  std::size_t bytes_ = 0;                      // of all in open_
  std::vector<std::uint64_t> to_requeue_;      // unacked, or settled since
};

}  // namespace rung::rabbit
