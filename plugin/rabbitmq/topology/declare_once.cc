// Declares what the sidecar declares, for rung attach.
#include "plugin/rabbitmq/topology/broker_endpoints.h"
#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/connection.h"

namespace rung::rabbit {

Result<void> declare_once(const BrokerOptions& options, const Clock& clock, Ms timeout) {
  auto endpoints = make_endpoints(options, clock);
  if (!endpoints) return tl::unexpected(endpoints.error());
  Waker waker(clock);
  const Connection::Others nothing = [](const Frame&) {};
  auto opened = Connection::open(*endpoints->addresses, *endpoints->access, options.heartbeat,
                                 options.connection_name + " (attach)", waker, timeout);
  if (!opened) return tl::unexpected(opened.error());
  const auto deadline = waker.now() + timeout;
  if (auto done = (*opened)->open_channel(waker, deadline, nothing); !done) return done;
  OwnQueueTypes types;
  std::string adopted;  // the sidecar and rung doctor report it
  auto done = declare_return_exchange(options, **opened, waker, deadline, nothing);
  if (done) done = declare_topology(options, types, **opened, waker, deadline, nothing, &adopted);
  (*opened)->close(waker.now() + std::chrono::seconds{1});
  return done;
}

}  // namespace rung::rabbit
