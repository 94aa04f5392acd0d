// Acks and requeues of one channel: which deliveries are acked, how that is written, and how it comes here
// from other threads.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

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
  void ack(const std::vector<std::uint64_t>& tags, std::string& out);
  void requeue(const std::vector<std::uint64_t>& tags, std::string& out);
  void requeue_all(std::string& out);  // everything unacked

 private:
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
