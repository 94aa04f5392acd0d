// Where the broker of the options is to be found, and what connecting takes. Thread: free.
#pragma once

#include <memory>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire.h"
#include "src/core/addresses.h"
#include "src/core/result.h"

namespace rung::rabbit {

struct Place {
  std::unique_ptr<Addresses> addresses;
  std::shared_ptr<Tls> tls;  // nullptr: amqp://
};
// Permanent errors: what is no broker's URL, addresses of which only some speak TLS, a file that is missing.
// REQUIRES: `clock` outlives what it returns.
Result<Place> place_of(const BrokerOptions& options, const Clock& clock);

}  // namespace rung::rabbit
