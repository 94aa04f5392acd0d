// RabbitMQ as a Broker: two threads, a connection and a channel each; one takes in, one publishes, so that an
// alarm or a slow consumer of ours on one side does not hold up the other. Thread: see Broker.
// make_rabbit_broker() from any.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/clock.h"

namespace rung {

// REQUIRES: `clock` outlives it.
std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock);

}  // namespace rung
