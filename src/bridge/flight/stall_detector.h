// Detects publishes that are not answered.
//   - A queue does not answer while others do: it goes into quarantine. Its unanswered publishes stay on
//   their
//     connection, because the queue has them and answers once it works again.
//   - A connection answers nothing while publishes to several queues are under way: one silent queue may
//   block
//     the whole connection in the broker. The connection is dropped and its targets go into quarantine;
//     probes find out which target is silent (targets.h).
//   - The only queue with publishes under way does not answer: it is only reported. It delays no other.
// Reports the queues: a log line when the silence of one begins and ends, and the problem "silent_queues".
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/targets.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::bridge {

class StallDetector {
 public:
  StallDetector(const Sidecar& sidecar, const Flights& flights, Targets& targets)
      : sidecar_(sidecar), flights_(flights), targets_(targets) {}

  // Call each second. `publishing`: the broker accepts publishes.
  void check(bool publishing);
  void confirmed() { stall_timeout_ = kStallTimeout; }

 private:
  static constexpr Ms kStallTimeout{10'000};

  void drop_stalled_connection(BootMs now);
  void report(BootMs now);

  const Sidecar& sidecar_;
  const Flights& flights_;
  Targets& targets_;
  Ms stall_timeout_{kStallTimeout};         // doubled after each stall, until a publish is confirmed
  std::map<std::uint32_t, BootMs> silent_;  // since when, by queue; at most QueueNames::kMost
};

// The fence (Broker::allow_publish_until) follows the leases: nothing is written to the broker after they
// have expired. It closes when leases are lost, and stays closed until every publish under way has its
// result: tasks claimed under a lost lease may still be in the publisher's queue. A publish that gets no
// answer has its connection dropped. Thread: the loop's.
class PublishFence {
 public:
  explicit PublishFence(const Sidecar& sidecar)
      : sidecar_(sidecar), timer_(sidecar.loop, [this] { give_up_unanswered(); }) {}

  void leases_lost();
  // Our leases allow publishing until `deadline`; 0 = not at all. Returns whether the fence is open now.
  bool extend(BootMs deadline);
  // Leases were lost, and some publishes under way have no result yet.
  bool is_closed() const { return closed_; }

 private:
  void allow_until(BootMs deadline);
  void give_up_unanswered();

  const Sidecar& sidecar_;
  bool closed_ = false;
  io::Timer timer_;
};

}  // namespace rung::bridge
