// Checks the topology every now and then, on a connection of its own: a refused declare closes the channel,
// and a quorum queue without a leader answers late; neither may disturb consuming. Tells the sink what it
// repaired and what it cannot repair.
//
// Thread: start, order_stop, join from any thread; the sink is called on its own.
#pragma once

#include <memory>
#include <thread>

#include "plugin/broker.h"
#include "plugin/rabbitmq/backoff.h"
#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/voice.h"

namespace rung::rabbit {

class TopologyKeeper {
 public:
  TopologyKeeper(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls, Voice& voice);
  ~TopologyKeeper();

  void start();
  void order_stop(BootMs deadline) { waker_.stop(deadline); }
  void join();

 private:
  void run();
  // Keeps the connection alive until the next check; false where it is over. No connection: sleeps.
  bool idle(BootMs until);
  bool check();

  const BrokerOptions& options_;
  Addresses& addresses_;
  const std::shared_ptr<Tls> tls_;
  Voice& voice_;
  Waker waker_;
  std::thread thread_;

  // The thread's own.
  Backoff backoff_;
  std::unique_ptr<Connection> connection_;  // made at the first check
};

}  // namespace rung::rabbit
