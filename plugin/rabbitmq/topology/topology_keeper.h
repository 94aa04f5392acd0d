// Checks the topology and the owner's mark periodically, on its own connection: a refused
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
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "plugin/rabbitmq/wire/connection_loop.h"
#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// --- the owner's mark ---
// It says which database a prefix belongs to: the exchange <prefix>.owner, whose alternate exchange is named
// <prefix>.database-ID. Nothing is published to it, and no such alternate exchange exists. Why so: it can be
// read without the management API (a declare with another argument is refused, and the refusal tells the
// argument that is there), it takes no rights that Rung does not have anyway, policies change neither an
// exchange's arguments nor its life, and it is a part of exported definitions. A queue could expire or be
// limited by a policy; an argument that RabbitMQ does not know is not compared. Thread: the caller's, on its
// connection.

struct OwnerClaim {
  std::string database;  // our database's id
  bool mark = false;     // if there is no mark yet, set it
};

std::string owner_exchange(const std::string& prefix);

// A refusal closes the channel, which is opened again: not for a connection that consumes. Error: the
// connection has ended.
Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, const Calls& calls);
// Removes the mark, whoever's it is.
Result<void> delete_owner(const BrokerOptions& options, const Calls& calls);

// --- the keeper ---

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
