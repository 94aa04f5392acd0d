// Detects publishes that are not answered.
//   - A queue does not answer while others do: it goes into quarantine. Its unanswered publishes stay on
//   their
//     connection, because the queue has them and answers once it works again.
//   - A connection answers nothing while publishes to several queues are under way: one silent queue may
//   block
//     the whole connection in the broker. The connection is dropped and its targets go into quarantine;
//     probes find out which target is silent (targets.h).
//   - The only queue with publishes under way does not answer: it is only reported. It delays no other.
// Thread: the loop's.
#pragma once

#include "plugin/broker.h"
#include "src/bridge/outbox.h"
#include "src/bridge/silent_queues.h"
#include "src/bridge/targets.h"
#include "src/core/clock.h"

namespace rung::bridge {

class StallDetector {
 public:
  StallDetector(Broker& broker, const Outbox& outbox, Targets& targets, SilentQueues& silent,
                const Clock& clock)
      : broker_(broker), outbox_(outbox), targets_(targets), silent_(silent), clock_(clock) {}

  // Call each second. `publishing`: the broker accepts publishes.
  void check(bool publishing);
  void confirmed() { stall_timeout_ = kStallTimeout; }

 private:
  static constexpr Ms kStallTimeout{10'000};

  void drop_stalled_connection(BootMs now);

  Broker& broker_;
  const Outbox& outbox_;
  Targets& targets_;
  SilentQueues& silent_;
  const Clock& clock_;
  Ms stall_timeout_{kStallTimeout};  // doubled after each stall, until a publish is confirmed
};

}  // namespace rung::bridge
