#include "plugin/rabbitmq/topology/command_connection.h"

#include "plugin/rabbitmq/wire/access.h"

namespace rung::rabbit {

Result<std::unique_ptr<CommandConnection>> CommandConnection::open(const BrokerOptions& options,
                                                                   const Clock& clock,
                                                                   const std::string& purpose, Ms timeout) {
  auto endpoints = make_endpoints(options, clock);
  if (!endpoints) return tl::unexpected(endpoints.error());
  std::unique_ptr<CommandConnection> its(new CommandConnection(clock, timeout));
  auto opened = Connection::open(*endpoints->addresses, *endpoints->access, options.heartbeat,
                                 options.connection_name + " (" + purpose + ")", its->waker_, timeout);
  if (!opened) return tl::unexpected(opened.error());
  its->connection_ = *std::move(opened);
  return its;
}

CommandConnection::~CommandConnection() {
  if (connection_ != nullptr) connection_->close(waker_.now() + std::chrono::seconds{1});
}

}  // namespace rung::rabbit
