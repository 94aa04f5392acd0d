// What Rung declares in RabbitMQ: durable exchanges, each with a durable queue of the same name bound to it,
// and the exchange <prefix>.return (return_route.h). As data, and a loop over it. Thread: the caller's, on
// its connection.
#pragma once

#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/connection.h"

namespace rung::rabbit {

struct Declared {
  std::string name;            // of the exchange (fanout) and of its queue
  std::optional<Inlet> inlet;  // what is consumed from it; none = nothing
  bool consumed = false;
};
std::vector<Declared> topology(const BrokerOptions& options);

// The words that stand for an inlet as consumer tags.
std::string_view consumer_tag(Inlet inlet);
std::optional<Inlet> inlet_from(std::string_view consumer_tag);

// Declares all of it but <prefix>.return. Kind::refused: it exists with other arguments, or we may not; the
// channel is closed then.
Result<void> declare_topology(const BrokerOptions& options, Connection& connection, Waker& waker,
                              BootMs deadline, const Connection::Others& others);

// Declares <prefix>.return. Where the broker refuses that, retries go out all the same, without their routing
// key, and the checks of the topology report it: the channel is opened again. So it is for a connection that
// has not consumed yet. Error: the connection is over.
Result<void> declare_return_exchange(const BrokerOptions& options, Connection& connection, Waker& waker,
                                     BootMs deadline, const Connection::Others& others);

// Looks at each exchange and queue (a passive declare, which needs no right), and declares what is missing.
// Binds all anew. The channel may be closed and opened again on the way: not for a connection that consumes.
// Error: the connection is over.
Result<TopologyReport> repair_topology(const BrokerOptions& options, Connection& connection, Waker& waker,
                                       BootMs deadline);

// basic.qos and basic.consume for each inlet.
// basic.cancel for each of them, and the broker's answers: what it sent before has come by then.
Result<void> cancel_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                           BootMs deadline, const Connection::Others& others);
Result<void> consume_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                            BootMs deadline, const Connection::Others& others);

}  // namespace rung::rabbit
