// Gathers acks and sends them in one batch. Counts the deliveries that have neither been acked nor returned
// to the broker, and since when none has. Thread: the loop's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/clock.h"

namespace rung::bridge {

class Acks {
 public:
  Acks(Broker& broker, const Clock& clock) : broker_(broker), clock_(clock) {}

  // Of a session that is at least as new as any before. An older one's deliveries count no longer.
  void received(std::uint32_t session, std::size_t deliveries) {
    begin_session(session);
    if (unacked_ == 0) progress_ = clock_.boot();
    unacked_ += deliveries;
  }
  void begin_session(std::uint32_t session) {
    if (session > session_) unacked_ = 0;
    session_ = std::max(session_, session);
  }

  void add(DeliveryTag tag) {
    settled(tag);
    tags_.push_back(tag);
  }
  void flush() {
    if (tags_.empty()) return;
    std::vector<DeliveryTag> tags;
    tags.swap(tags_);
    progress_ = clock_.boot();
    broker_.ack(std::move(tags));
  }
  // The broker redelivers them.
  void requeue(std::vector<DeliveryTag> tags) {
    for (const DeliveryTag& tag : tags) settled(tag);
    broker_.requeue(std::move(tags));
  }

  std::size_t unacked() const { return unacked_; }
  // How long deliveries have waited while none was acked; 0 if none waits.
  Ms stalled() const { return unacked_ == 0 ? Ms{0} : clock_.boot() - progress_; }

 private:
  void settled(DeliveryTag tag) {
    if (tag.session() == session_ && unacked_ > 0) --unacked_;
  }

  Broker& broker_;
  const Clock& clock_;
  std::vector<DeliveryTag> tags_;
  std::uint32_t session_ = 0;
  std::size_t unacked_ = 0;  // of this session
  BootMs progress_{0};       // the last ack, or the first delivery after a time without any
};

}  // namespace rung::bridge
