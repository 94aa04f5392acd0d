// What is asked of the broker beside consuming and publishing, on a connection of its own: checks the
// topology and the owner's mark periodically, and finds error queues. A refusal closes the channel, and a
// quorum queue without a leader answers late; neither may disturb consuming. Reports to the sink what it
// repaired and what it cannot repair. The consumer reports an unreachable broker.
//
// Thread: start, claim, order_stop, join from any thread; the sink is called on its own.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

class TopologyKeeper final : private ConnectionLoop::Handler {
 public:
  // `errors`: nullptr: the config has no error queues. `return_route_changed`: the bindings of
  // <prefix>.return have to be made again. REQUIRES: all outlive it.
  TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types, ErrorQueueBook* errors,
                 std::function<void()> return_route_changed);
  ~TopologyKeeper() override;

  void start();
  void wake() { loop_.wake(); }
  // Broker::claim(). Any thread.
  void claim(std::string database, bool mark);
  void order_stop(BootMs deadline);
  void join() { loop_.join(); }

 private:
  Result<BootMs> turn(Connection& connection) override;
  BootMs idle() override;
  void over(const ConnectionLoop::End& end) override;
  Result<void> check(const Calls& calls);
  Result<void> look_at_owner(const Calls& calls);
  void schedule_next();

  const BrokerOptions& options_;
  const Access& access_;
  OwnQueueTypes& types_;
  ErrorQueueBook* const errors_;
  const std::function<void()> return_route_changed_;

  std::mutex mutex_;
  OwnerClaim claim_;        // guarded by mutex_
  bool claim_due_ = false;  // guarded by mutex_: it has no answer yet

  // Used by the keeper's thread only, after start().
  BootMs next_check_;
  bool channel_open_ = false;

  ConnectionLoop loop_;  // last: it uses the others
};

}  // namespace rung::rabbit
