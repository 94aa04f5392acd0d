// Leaves returned copies in their error queues (parked: return). A consumer cannot pass over a message: the
// copies are held, unacked, until nothing else comes from the queue; then the queue rests (Broker::rest), and
// each copy is published to its end again, confirmed and acked. They are not requeued, because a quorum
// queue would drop them after some twenty times. Thread: the loop's.
#pragma once

#include <cstdint>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/acks.h"
#include "src/bridge/outbox.h"
#include "src/io/loop.h"

namespace rung::bridge {

class ReturnedCopies {
 public:
  ReturnedCopies(io::Loop& loop, Broker& broker, Outbox& outbox, Acks& acks);

  void add(Delivery copy);
  // Drops what waits here of older sessions of this intake: the broker redelivers it.
  void forget_before(const IntakeSession& session);
  // Sends no more.
  void drain();
  bool idle() const { return under_way_ == 0; }

 private:
  void send_back();
  void sent(const std::vector<DeliveryTag>& tags, const PublishResult& result);

  Broker& broker_;
  Outbox& outbox_;
  Acks& acks_;
  std::vector<Delivery> held_;
  io::Timer quiet_;  // restarted by each copy
  int under_way_ = 0;
  bool draining_ = false;
};

}  // namespace rung::bridge
