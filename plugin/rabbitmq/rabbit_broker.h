// RabbitMQ as a Broker: threads with a connection and a channel each. One consumes, one publishes, so that an
// alarm or a slow consumer of ours on one side does not block the other; one checks the topology. Two further
// publishers start when they are first needed (publishers.h). Thread: see Broker.
// make_rabbit_broker() from any.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/clock.h"

namespace rung {

// REQUIRES: `clock` outlives it.
std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock);

}  // namespace rung
