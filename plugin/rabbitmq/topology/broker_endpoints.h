// The broker addresses from the options, and what a login to them needs. Thread: any.
#pragma once

#include <memory>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/access.h"
#include "src/core/base/addresses.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

struct BrokerEndpoints {
  std::unique_ptr<Addresses> addresses;
  std::unique_ptr<Access> access;
};
// Reads the URLs, and once the TLS files; does not look up host names.
// Permanent errors: a URL that is not a broker's, addresses of which only some use TLS, a missing file.
// REQUIRES: `options` and `clock` outlive what it returns.
Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock);

}  // namespace rung::rabbit
