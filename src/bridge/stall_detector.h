// Notices a connection on which nothing is answered while several queues want something: the broker may keep
// all of it waiting for one queue that doesn't answer. The connection is given up, and its targets go into
// quarantine; which of them is silent, the probes find out (targets.h). Thread: the loop's.
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

  // Call each second. `publishing`: the broker can be published to.
  void check(bool publishing);
  void confirmed() { stall_timeout_ = kStallTimeout; }

 private:
  static constexpr Ms kStallTimeout{10'000};

  Broker& broker_;
  const Outbox& outbox_;
  Targets& targets_;
  const Clock& clock_;
  Ms stall_timeout_{kStallTimeout};  // twice as long after each stall, until a publish is confirmed
};

}  // namespace rung::bridge
