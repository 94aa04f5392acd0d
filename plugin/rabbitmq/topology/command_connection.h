// The connection of a command, `rung doctor` for example: to the first address that accepts us. It is closed
// with the object. Thread: one. Every call blocks, bounded by the timeout given to open().
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

class CommandConnection {
 public:
  // `purpose` becomes part of the connection's name: "doctor". REQUIRES: `clock` outlives it.
  static Result<std::unique_ptr<CommandConnection>> open(const BrokerOptions& options, const Clock& clock,
                                                         const std::string& purpose, Ms timeout);
  ~CommandConnection();
  CommandConnection(const CommandConnection&) = delete;
  CommandConnection& operator=(const CommandConnection&) = delete;

  Connection& connection() const { return *connection_; }
  Waker& waker() { return waker_; }
  Ms timeout() const { return timeout_; }
  // For calls that begin now.
  Calls calls(Connection::Others others = [](const Frame&) {}) {
    return {*connection_, waker_, waker_.now() + timeout_, std::move(others)};
  }

 private:
  CommandConnection(const Clock& clock, Ms timeout) : waker_(clock), timeout_(timeout) {}

  Waker waker_;
  const Ms timeout_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace rung::rabbit
