// The publishers of one broker: the main one, and two helpers, which connect when they are first needed.
// unproven: for exchanges and bindings that have not answered yet. probe: for PublishLane::probe.
//
// Thread: any, except for stopping: one thread calls order_stop() and join() once each, in that order.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/publish/publisher.h"
#include "plugin/rabbitmq/wire/access.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

class Publishers {
 public:
  // REQUIRES: the references outlive it.
  Publishers(const BrokerOptions& options, const BrokerEndpoints& endpoints, SinkAdapter& sink);

  void start() { main_.start(); }
  void publish(std::vector<Outgoing> batch);
  void allow_until(BootMs deadline);
  void drop(PublishLane lane, std::string reason);
  // Exchanges and bindings have changed: proves each again before its next use.
  void forget_proven() { proven_.clear(); }
  void order_stop(BootMs deadline);
  void join();

 private:
  // A publisher in addition to the main one. It sends one message at a time: a refusal closes its channel.
  struct Helper {
    const Role role;
    const BrokerOptions options;
    std::unique_ptr<Publisher> publisher;  // created when first needed
  };

  Publisher* started(Helper& helper);  // nullptr if we are stopping
  void publish_unproven(std::vector<Outgoing> batch);
  std::vector<Publisher*> all();

  const BrokerEndpoints& endpoints_;
  SinkAdapter& sink_;
  SinkAdapter helpers_sink_;
  ProvenExchanges proven_;
  Publisher main_;

  std::mutex mutex_;
  // Guarded by mutex_. The helpers do not change once stopping_ is set.
  BootMs allowed_until_{0};
  Helper probe_, unproven_;
  bool stopping_ = false;
};

}  // namespace rung::rabbit
