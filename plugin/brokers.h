// The broker: RabbitMQ.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/clock.h"

namespace rung {

// Connects nothing before start(), which also tells what is wrong with the options. Thread: any. REQUIRES:
// `clock` outlives the broker.
std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock);

}  // namespace rung
