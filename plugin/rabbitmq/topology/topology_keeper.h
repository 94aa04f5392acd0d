// Checks the topology and the owner's mark (owner_mark.h) periodically, on its own connection: a refused
// declare closes the channel, and a quorum queue without a leader answers late; neither may disturb
// consuming. Reports to the sink what it repaired and what it cannot repair. The consumer reports an
// unreachable broker.
//
// Thread: start, order_stop, join from any thread; the sink is called on its own.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "plugin/broker.h"
#include "plugin/rabbitmq/topology/owner_mark.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

class TopologyKeeper {
 public:
  // `return_route_changed`: the bindings of <prefix>.return have to be made again.
  TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types, std::function<void()> return_route_changed);
  ~TopologyKeeper();

  void start();
  // Broker::claim(). Any thread.
  void claim(std::string database, bool mark);
  void order_stop(BootMs deadline) { loop_.order_stop(deadline); }
  void join() { loop_.join(); }

 private:
  Result<BootMs> turn(Connection& connection);
  Result<void> open_channel(Connection& connection);
  Result<void> check(Connection& connection);
  Result<void> look_at_owner(Connection& connection);
  void schedule_next();

  const BrokerOptions& options_;
  OwnQueueTypes& types_;
  const std::function<void()> return_route_changed_;

  std::mutex mutex_;
  OwnerClaim claim_;        // guarded by mutex_
  bool claim_due_ = false;  // guarded by mutex_: it has no answer yet

  // Used by the keeper's thread only, after start().
  BootMs next_check_;
  bool channel_open_ = false;

  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
