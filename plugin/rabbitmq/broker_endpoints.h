// The broker addresses from the options, and the TLS context for connections to them. Thread: any.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire.h"
#include "src/core/addresses.h"
#include "src/core/clock.h"
#include "src/core/result.h"

namespace rung::rabbit {

struct BrokerEndpoints {
  std::unique_ptr<Addresses> addresses;
  std::shared_ptr<Tls> tls;  // nullptr: amqp://
};
// Reads the URLs and the TLS files; does not look up host names.
// Permanent errors: a URL that is not a broker's, addresses of which only some use TLS, a missing file.
// REQUIRES: `clock` outlives what it returns.
Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock);

}  // namespace rung::rabbit
