// Checks the topology periodically, on its own connection: a refused declare closes the channel, and a quorum
// queue without a leader answers late; neither may disturb consuming. Reports to the sink what it repaired
// and what it cannot repair. The consumer reports an unreachable broker.
//
// Thread: start, order_stop, join from any thread; the sink is called on its own.
#pragma once

#include <functional>

#include "plugin/broker.h"
#include "plugin/rabbitmq/connection_loop.h"

namespace rung::rabbit {

class TopologyKeeper {
 public:
  // `return_route_changed`: the bindings of <prefix>.return have to be made again.
  TopologyKeeper(ConnectionLoop::Deps deps, std::function<void()> return_route_changed);
  ~TopologyKeeper();

  void start();
  void order_stop(BootMs deadline) { loop_.order_stop(deadline); }
  void join() { loop_.join(); }

 private:
  Result<BootMs> turn(Connection& connection);
  Result<void> check(Connection& connection);
  void schedule_next();

  const BrokerOptions& options_;
  const std::function<void()> return_route_changed_;

  // Used by the keeper's thread only, after start().
  BootMs next_check_;
  bool channel_open_ = false;

  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
