// A Broker and its environment, the same for memory and RabbitMQ: queues, producers, consumers, a connection
// that can be cut. Thread: the test's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "tests/support/broker_recorder.h"

namespace rung::test {

class World {
 public:
  virtual ~World() = default;
  virtual Broker& broker() = 0;
  virtual void declare(const std::string& queue) = 0;
  virtual void remove(const std::string& queue) = 0;
  // A consumer takes the oldest message, waiting for it if necessary, and fails it: it goes to
  // <prefix>.failed.
  virtual bool reject(const std::string& queue) = 0;
  virtual bool put(const std::string& exchange, const std::string& routing_key, const Message& message) = 0;
  virtual std::optional<Message> take(const std::string& queue) = 0;  // waits a while
  virtual std::size_t depth(const std::string& queue) = 0;
  virtual void cut() = 0;               // the connections break, and are reopened
  virtual void cut_error_intake() = 0;  // only the connection that consumes error queues
  virtual void go_away() = 0;           // the connections break, and stay closed
  virtual void come_back() = 0;

  const std::string& prefix() const { return prefix_; }

 protected:
  std::string prefix_;
};

std::unique_ptr<World> make_memory_world(const BrokerOptions& options);
std::unique_ptr<World> make_rabbit_world(const BrokerOptions& options);

}  // namespace rung::test
