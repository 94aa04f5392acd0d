// A connection that finds out over AMQP what its user may do. It leaves nothing behind: exchanges and queues
// of others are declared passively, what it declares itself goes with the connection, and a right to bind is
// tried by taking off a binding that does not exist. Thread: one. Every call blocks, bounded by the time-out
// that open() was given.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/connection.h"
#include "src/core/result.h"

namespace rung::rabbit {

// Errors of all calls: not_found = it does not exist; refused = the broker refuses, in its own words;
// transient = no answer.
class Probe {
 public:
  // To the first address that takes us in. REQUIRES: `clock` outlives it.
  static Result<std::unique_ptr<Probe>> open(const BrokerOptions& options, const Clock& clock, Ms timeout);
  const Address& address() const { return connection_->address(); }
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  Result<void> exchange_exists(std::string_view name);
  Result<void> queue_exists(std::string_view name);
  // Asks for the rights write on the queue and read on the exchange. Both must exist.
  Result<void> may_bind(std::string_view queue, std::string_view exchange);
  // Declares an exclusive queue: the right configure.
  Result<void> may_declare(const std::string& name);
  // Of that queue: the right read.
  Result<void> may_read(std::string_view queue);
  // Publishes an empty message that no queue takes: the right write on the exchange.
  Result<void> may_publish(std::string_view exchange, std::string_view unbound_key);

 private:
  explicit Probe(const Clock& clock) : waker_(clock) {}
  // The broker closes the channel with each refusal: the next question opens it again.
  Result<void> ask(amqp_method_number_t id, const void* fields, amqp_method_number_t answer);
  Result<void> channel();

  Waker waker_;
  Ms timeout_{0};
  std::shared_ptr<Tls> tls_;
  std::unique_ptr<Connection> connection_;
  bool channel_open_ = false;
};

// An address of the broker: whether it answers and lets us in.
struct AddressFacts {
  std::string address;
  Error error;          // its message is "" where it let us in
  std::string cluster;  // its name, as the broker tells it
};
// One for each address, hosts that are not known among them. Each has `timeout`.
std::vector<AddressFacts> look_at_addresses(const BrokerOptions& options, const Clock& clock, Ms timeout);

}  // namespace rung::rabbit
