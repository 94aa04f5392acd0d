// Creates the broker that the config names. The scheme of its URL chooses the plugin. Thread: any.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/message/message.h"

namespace rung {

// Permanent errors: a URL that does not parse, a scheme that no plugin serves (the text lists the known
// ones). Connects nothing before start(). REQUIRES: `clock` outlives the broker.
Result<std::unique_ptr<Broker>> make_broker(BrokerOptions options, const Clock& clock);
// The one for amqp:// and amqps://.
std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock);

// The headers that have a meaning for that broker; none for a scheme that no plugin serves.
ReservedHeaders reserved_headers(const BrokerOptions& options);

// The facts from the headers that a row kept (strip()), whichever broker the message came from. Removes those
// headers from `message`.
BrokerFacts stored_facts(Message& message);

}  // namespace rung
