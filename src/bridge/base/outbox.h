// What goes to the broker in batches: publishes and acks. Thread: the loop's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/time.h"

namespace rung::bridge {

// The publishes on their way, each with a callback for its result.
class Outbox {
 public:
  using Done = std::function<void(const PublishResult&)>;

  Outbox(Broker& broker, const Clock& clock) : broker_(broker), clock_(clock) {}

  // Adds to the batch that flush() passes to the broker. Sets the token.
  void send(Outgoing message, Done done) {
    if (done_.empty()) heard_at_ = clock_.boot();
    message.token = ++last_token_;
    done_.emplace(message.token, std::move(done));
    batch_.push_back(std::move(message));
  }
  void flush() {
    if (batch_.empty()) return;
    std::vector<Outgoing> batch;
    batch.swap(batch_);
    broker_.publish(std::move(batch));
  }
  void arrived(const std::vector<PublishResult>& results) {
    heard_at_ = clock_.boot();
    for (const PublishResult& result : results) {
      const auto node = done_.extract(result.token);
      if (!node.empty()) node.mapped()(result);
    }
  }
  std::size_t under_way() const { return done_.size(); }
  // When the last answer arrived, or when the first of those under way was sent.
  BootMs heard_at() const { return heard_at_; }
  void begin_silence() { heard_at_ = clock_.boot(); }

 private:
  Broker& broker_;
  const Clock& clock_;
  std::uint64_t last_token_ = 0;
  BootMs heard_at_{0};
  std::vector<Outgoing> batch_;
  std::unordered_map<std::uint64_t, Done> done_;
};

// Gathers acks. Counts the deliveries that have neither been acked nor returned to the broker, and since when
// none has.
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
