// Gathers acks and sends them in one batch. Counts the deliveries that have neither been acked nor returned
// to the broker, and since when none has. Thread: the loop's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/clock.h"

namespace rung::bridge {

class Acks {
 public:
  Acks(Broker& broker, const Clock& clock) : broker_(broker), clock_(clock) {}

  // Those of an older session than the last of its intake do not count: the broker redelivers them.
  void received(const IntakeSession& session, std::size_t deliveries) {
    Intake& intake = at(session);
    if (session.before(intake.session)) return;
    if (intake.unacked == 0) intake.progress = clock_.boot();
    intake.unacked += deliveries;
  }
  void begin_session(const IntakeSession& session) { at(session); }

  void add(DeliveryTag tag) {
    settled(tag);
    tags_.push_back(tag);
  }
  void flush() {
    if (tags_.empty()) return;
    std::vector<DeliveryTag> tags;
    tags.swap(tags_);
    note_progress();
    broker_.ack(std::move(tags));
  }
  // The broker redelivers them.
  void requeue(std::vector<DeliveryTag> tags) {
    for (const DeliveryTag& tag : tags) settled(tag);
    note_progress();
    broker_.requeue(std::move(tags));
  }

  std::size_t unacked() const {
    std::size_t all = 0;
    for (const Intake& intake : intakes_) all += intake.unacked;
    return all;
  }
  // How long deliveries of an intake have waited while none of it was acked or returned, the longest; 0 if
  // none waits.
  Ms stalled() const {
    Ms longest{0};
    for (const Intake& intake : intakes_) {
      if (intake.unacked > 0) longest = std::max(longest, clock_.boot() - intake.progress);
    }
    return longest;
  }

 private:
  struct Intake {
    IntakeSession session;
    std::size_t unacked = 0;  // of this session
    BootMs progress{0};       // the last ack, or the first delivery after a time without any
    bool settled = false;     // something, since note_progress()
  };

  Intake& at(const IntakeSession& session) {
    const auto same = [&](const Intake& one) { return one.session.intake == session.intake; };
    const auto intake = std::ranges::find_if(intakes_, same);
    if (intake == intakes_.end()) return intakes_.emplace_back(Intake{session});
    if (intake->session.before(session)) *intake = {session};
    return *intake;
  }

  void settled(const DeliveryTag& tag) {
    const auto intake = std::ranges::find(intakes_, tag.session, &Intake::session);
    if (intake == intakes_.end() || intake->unacked == 0) return;
    --intake->unacked;
    intake->settled = true;
  }

  // Once for each batch: the clock is not read for each delivery.
  void note_progress() {
    for (Intake& intake : intakes_) {
      if (std::exchange(intake.settled, false)) intake.progress = clock_.boot();
    }
  }

  Broker& broker_;
  const Clock& clock_;
  std::vector<DeliveryTag> tags_;
  std::vector<Intake> intakes_;  // one or two
};

}  // namespace rung::bridge
