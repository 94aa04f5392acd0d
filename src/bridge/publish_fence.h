// The fence (Broker::allow_publish_until) follows the leases: nothing is written to the broker after they
// have run out. Where leases were lost it closes, and stays closed until every publish under way has its
// result: what was claimed under a lost lease may still stand in the publisher's queue. A publish that stays
// without an answer loses its connection for that. Thread: the loop's.
#pragma once

#include "plugin/broker.h"
#include "src/bridge/health.h"
#include "src/bridge/outbox.h"
#include "src/core/time.h"
#include "src/io/loop.h"

namespace rung::bridge {

class PublishFence {
 public:
  PublishFence(io::Loop& loop, Broker& broker, const Outbox& outbox, Health& health);

  void leases_lost();
  // The leases that we hold allow it until then; 0 = not at all. Whether it is open now.
  bool extend(BootMs deadline);
  // Leases were lost, and what was under way has not ended.
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
