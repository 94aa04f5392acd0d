// The state of one consumer: whether it consumes, which deliveries are still valid, how many bytes of them
// are unacked, which are acked, and how that is written.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection_loop.h"
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

struct AckFrame {
  std::uint64_t tag = 0;
  bool multiple = false;
  bool operator==(const AckFrame&) const = default;
};

// Tracks which deliveries of one channel are acked, and acks them in few frames: a contiguous run from the
// oldest unacked goes as one ack with `multiple`, the rest one by one. `multiple` is correct only if all
// lower tags are acked, so it is used up to the oldest gap and never beyond.
//
// Memory is bounded by what is unacked: once more states behind a gap are settled than open, the open ones at
// the front move into a set.
//
// Thread: one thread per object.
class AckWindow {
 public:
  void delivered() {  // tags count up from 1
    states_.push_back(kOpen);
    ++open_;
  }

  // Appends the frames that ack `tags`. Ignores tags that were never delivered or are already acked.
  void ack(const std::vector<std::uint64_t>& tags, std::vector<AckFrame>& frames) {
    for (const std::uint64_t tag : tags) {
      if (old_.erase(tag) > 0) frames.push_back({tag, false});
      settle(tag, kOwed);
    }
    std::uint64_t upto = 0;
    std::size_t run = 0;
    while (old_.empty() && !states_.empty() && states_.front() != kOpen) {
      if (states_.front() == kOwed) {
        upto = base_;
        ++run;
      }
      pop_front();
    }
    if (run > 0) frames.push_back({upto, run > 1});
    for (const std::uint64_t tag : tags) {
      if (tag < base_ || tag - base_ >= states_.size() || at(tag) != kOwed) continue;
      at(tag) = kSent;
      frames.push_back({tag, false});
    }
    drop_settled();
  }

  // Settled in another way: no ack is due for it.
  void settled(std::uint64_t tag) {
    old_.erase(tag);
    settle(tag, kSent);
    drop_settled();
  }

  void settle_all() {
    base_ += states_.size();
    states_.clear();
    old_.clear();
    open_ = 0;
  }

  // Entries in memory: at most 2 * those unacked + kMostSettled.
  std::size_t size() const { return old_.size() + states_.size(); }
  static constexpr std::size_t kMostSettled = 4096;

 private:
  enum State : std::uint8_t { kOpen, kOwed, kSent };
  State& at(std::uint64_t tag) { return states_[static_cast<std::size_t>(tag - base_)]; }

  void settle(std::uint64_t tag, State state) {
    if (tag < base_ || tag - base_ >= states_.size() || at(tag) != kOpen) return;
    at(tag) = state;
    --open_;
  }
  void pop_front() {
    states_.pop_front();
    ++base_;
  }
  // REQUIRES: no state is kOwed.
  void drop_settled() {
    while (!states_.empty() && states_.front() == kSent) pop_front();
    if (states_.size() <= 2 * open_ + kMostSettled) return;
    while (states_.size() > open_ + (open_ + kMostSettled) / 2) {
      if (states_.front() == kOpen) {
        old_.insert(old_.end(), base_);
        --open_;
      }
      pop_front();
    }
  }

  std::set<std::uint64_t> old_;  // tags before base_ that are unacked
  std::uint64_t base_ = 1;       // the tag of states_[0]
  std::deque<State> states_;
  std::size_t open_ = 0;  // number of kOpen in states_
};

// Writes acks and requeues of one channel into the connection's buffer, in as few frames as the protocol
// allows. Requeues are nacks, not rejects: since 4.3 RabbitMQ counts only rejects towards a quorum queue's
// delivery limit. Thread: one thread per object.
class AckWriter {
 public:
  void begin_channel() { window_ = {}; }
  void delivered() { window_.delivered(); }  // tags count up from 1

  // Unknown tags and tags that are already settled are ignored.
  void ack(const std::vector<std::uint64_t>& tags, std::string& out) {
    frames_.clear();
    window_.ack(tags, frames_);
    for (const AckFrame& frame : frames_)
      put_settle(out, AMQP_BASIC_ACK_METHOD, frame.tag, frame.multiple ? kMultiple : std::uint8_t{0});
  }
  void requeue(const std::vector<std::uint64_t>& tags, std::string& out) {
    for (const std::uint64_t tag : tags) {
      window_.settled(tag);
      put_settle(out, AMQP_BASIC_NACK_METHOD, tag, kRequeue);
    }
  }
  void requeue_all(std::string& out) {
    put_settle(out, AMQP_BASIC_NACK_METHOD, 0, kMultiple | kRequeue);  // tag 0: all
    window_.settle_all();
  }

 private:
  static constexpr std::uint8_t kMultiple = 1,
                                kRequeue = 2;  // bits of both methods; an ack has only the first

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

  AckWindow window_;
  std::vector<AckFrame> frames_;  // scratch
};

// Acks and requeues in transit to the consumer's thread. Thread: ack and requeue from any; take from the
// consumer's own.
class AckMailbox {
 public:
  void ack(std::vector<DeliveryTag> tags) { acks_.put(std::move(tags)); }
  void requeue(std::vector<DeliveryTag> tags) { requeues_.put(std::move(tags)); }

  struct Taken {
    std::vector<std::uint64_t> acks, requeues;  // delivery tags of this session
    bool any_acks = false;                      // also true if all acks were of old sessions
  };
  // Valid until the next call.
  const Taken& take(const IntakeSession& session) {
    taken_.any_acks = filter(acks_.take(), session, taken_.acks);
    filter(requeues_.take(), session, taken_.requeues);
    return taken_;
  }

 private:
  static bool filter(const std::vector<DeliveryTag>& from, const IntakeSession& session,
                     std::vector<std::uint64_t>& to) {
    to.clear();
    for (const DeliveryTag& tag : from) {
      if (tag.session == session) to.push_back(tag.tag);
    }
    return !from.empty();
  }

  Mailbox<DeliveryTag> acks_, requeues_;
  Taken taken_;  // the thread's own
};

}  // namespace rung::rabbit
