// What Rung declares in RabbitMQ: durable exchanges, each with a durable queue of the same name bound to it.
// As data, and a loop over it. Thread: the caller's, on its connection.
#pragma once

#include <string>
#include <vector>

#include "plugin/broker.h"
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

// Declares all of it. Permanent error: it exists with other arguments, or we may not; the channel is closed
// then.
Result<void> declare_topology(const BrokerOptions& options, Connection& connection, Waker& waker,
                              Clock::time_point deadline, const Connection::Others& others);

// basic.qos and basic.consume for each inlet.
Result<void> consume_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                            Clock::time_point deadline, const Connection::Others& others);

}  // namespace rung::rabbit
