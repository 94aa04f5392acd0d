// What Rung declares in RabbitMQ: durable exchanges, each with a durable queue of the same name bound to it,
// and the exchange <prefix>.return (return_route.h). The topology is data, and a loop declares it. Thread:
// the caller's, on its connection.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"

namespace rung::rabbit {

struct Declared {
  std::string name;            // of the exchange (fanout) and of its queue
  std::optional<Inlet> inlet;  // the inlet that is consumed from it; none = nothing
  bool consumed = false;
};
std::vector<Declared> topology(const BrokerOptions& options);

// The consumer tags that stand for the inlets.
std::string_view consumer_tag(Inlet inlet);
std::optional<Inlet> inlet_from(std::string_view consumer_tag);

// With which `queue`, one of Rung's own, is declared. The type is written out: otherwise the virtual host's
// default queue type decides. A message may expire in an inlet, by its own TTL: then it goes to another inlet
// (not to the same one: RabbitMQ drops such a cycle), and broker_headers.h takes it back. REQUIRES: `type`
// outlives it.
class QueueArguments {
 public:
  QueueArguments(const std::string& type, std::string_view queue);
  QueueArguments(const QueueArguments&) = delete;
  QueueArguments& operator=(const QueueArguments&) = delete;
  amqp_table_t table() { return {count_, entries_.data()}; }

 private:
  std::string expired_to_;
  std::array<amqp_table_entry_t, 3> entries_{};
  int count_ = 0;
};

// The types that Rung's own queues have, as far as known, if broker.queue_type is auto: found out by
// declaring them, which the broker refuses, and logs, for another type. So it is asked once. Thread: any.
class OwnQueueTypes {
 public:
  // The type to declare the queue with: its own, else that of new queues: broker.queue_type, or for auto
  // quorum on a cluster and classic on a single node. The first call for auto asks the management API, which
  // may block for some seconds. If that does not tell the nodes: classic before RabbitMQ 4, and quorum since.
  std::string of(const std::string& queue, const BrokerOptions& options, int major_version);
  void found(const std::string& queue, std::string type);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> types_;  // by queue; "" = of new queues; guarded by mutex_
};

// Declares everything except <prefix>.return. Kind::refused: it exists with other arguments, or we lack the
// right; the channel is then closed. With `adopted` (not nullptr), a queue that exists with other arguments
// is used as it is, and `adopted` says so; but a classic queue of ours that is empty and unused becomes a
// quorum queue, if broker.queue_type says so. The channel may then have been reopened: not for a connection
// that consumes.
Result<void> declare_topology(const BrokerOptions& options, OwnQueueTypes& types, const Calls& calls,
                              std::string* adopted);

// Declares <prefix>.return. If the broker refuses, the channel is opened again; retries still go out, without
// their routing key, and the topology checks report it. So use a connection that has not consumed yet. Error:
// the connection has ended.
Result<void> declare_return_exchange(const BrokerOptions& options, const Calls& calls);

// Checks each exchange and queue (a passive declare, which needs no right) and declares missing ones. Binds
// all of them again. May close and reopen the channel: not for a connection that consumes. Error: the
// connection has ended.
Result<TopologyReport> repair_topology(const BrokerOptions& options, OwnQueueTypes& types,
                                       const Calls& calls);

// Sends basic.cancel for each inlet and waits for the answers: what the broker sent before has arrived by
// then.
Result<void> cancel_inlets(const BrokerOptions& options, const Calls& calls);
// Sends basic.qos, and basic.consume for each inlet.
Result<void> consume_inlets(const BrokerOptions& options, const Calls& calls);

}  // namespace rung::rabbit
