// Detects a connection without any answer while publishes to several queues are under way: one silent queue
// may block the whole connection in the broker. Drops the connection and quarantines its targets; probes find
// out which target is silent (targets.h). Thread: the loop's.
#pragma once

#include "plugin/broker.h"
#include "src/bridge/outbox.h"
#include "src/bridge/targets.h"
#include "src/core/clock.h"

namespace rung::bridge {

class StallDetector {
 public:
  StallDetector(Broker& broker, const Outbox& outbox, Targets& targets, const Clock& clock)
      : broker_(broker), outbox_(outbox), targets_(targets), clock_(clock) {}

  // Call each second. `publishing`: the broker accepts publishes.
  void check(bool publishing);
  void confirmed() { stall_timeout_ = kStallTimeout; }

 private:
  static constexpr Ms kStallTimeout{10'000};

  Broker& broker_;
  const Outbox& outbox_;
  Targets& targets_;
  const Clock& clock_;
  Ms stall_timeout_{kStallTimeout};  // doubled after each stall, until a publish is confirmed
};

}  // namespace rung::bridge
