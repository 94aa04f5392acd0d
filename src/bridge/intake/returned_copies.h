// Leaves returned copies in their error queues (parked: return). A consumer cannot pass over a message: the
// copies are held, unacked, until nothing else comes from the queue; then the queue rests (Broker::rest), and
// each copy is published to its end again, confirmed and acked. They are not requeued, because a quorum
// queue would drop them after some twenty times. From a queue that is never quiet they go back every few
// minutes, before the broker's consumer timeout. Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/intake/acks.h"
#include "src/bridge/intake/recognized.h"
#include "src/io/loop.h"

namespace rung::bridge {

class ReturnedCopies {
 public:
  ReturnedCopies(io::Loop& loop, Broker& broker, Outbox& outbox, Acks& acks, Recognized& recognized);

  void add(Delivery copy);
  // A failure came from this error queue: it is not quiet.
  void failure_came(const std::string& error_queue);
  // Drops what waits here of older sessions of this intake: the broker redelivers it.
  void forget_before(const IntakeSession& session);
  // Sends no more.
  void drain();
  bool idle() const { return under_way_ == 0; }
  // The error queues with copies, and at most kMostIdle others.
  std::size_t queues() const { return queues_.size(); }
  static constexpr std::size_t kMostIdle = 100;

 private:
  // What is held from one error queue.
  struct Queue {
    Queue(io::Loop& loop, std::function<void()> send_back) : quiet(loop, std::move(send_back)) {}
    std::vector<Delivery> held;
    BootMs since{0}, last{0};  // the first of `held` came; the last message of any kind came
    io::Timer quiet;
  };

  void forget_idle();
  void wait_for_quiet(Queue& queue);
  void send_back(const std::string& error_queue);
  void sent(const std::vector<DeliveryTag>& tags, const PublishResult& result);

  io::Loop& loop_;
  Broker& broker_;
  Outbox& outbox_;
  Acks& acks_;
  Recognized& recognized_;
  std::map<std::string, Queue, std::less<>> queues_;
  int under_way_ = 0;
  bool draining_ = false;
};

}  // namespace rung::bridge
