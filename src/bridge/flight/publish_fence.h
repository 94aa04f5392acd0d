// The fence (Broker::allow_publish_until) follows the leases: nothing is written to the broker after they
// have expired. It closes when leases are lost, and stays closed until every publish under way has its
// result: tasks claimed under a lost lease may still be in the publisher's queue. A publish that gets no
// answer has its connection dropped. Thread: the loop's.
#pragma once

#include "plugin/broker.h"
#include "src/bridge/base/health.h"
#include "src/bridge/base/outbox.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::bridge {

class PublishFence {
 public:
  PublishFence(io::Loop& loop, Broker& broker, const Outbox& outbox, Health& health);

  void leases_lost();
  // Our leases allow publishing until `deadline`; 0 = not at all. Returns whether the fence is open now.
  bool extend(BootMs deadline);
  // Leases were lost, and some publishes under way have no result yet.
  bool is_closed() const { return closed_; }

 private:
  void allow_until(BootMs deadline);
  void give_up_unanswered();

  Broker& broker_;
  const Outbox& outbox_;
  Health& health_;
  bool closed_ = false;
  io::Timer timer_;
};

}  // namespace rung::bridge
