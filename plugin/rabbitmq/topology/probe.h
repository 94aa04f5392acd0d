// The connection of a command: it tests over AMQP what its user may do. Only what declare() and a mark that
// it is told to set stay behind: it declares others' exchanges and queues passively, its own declarations end
// with the connection, and it tests the right to bind by removing a binding that does not exist. Thread: one.
// Every call blocks, bounded by the timeout given to open().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// --- the owner's mark ---
// It says which database a prefix belongs to: the exchange <prefix>.owner, whose alternate exchange is named
// <prefix>.database-ID. Nothing is published to it, and no such alternate exchange exists. Why so: it can be
// read without the management API (a declare with another argument is refused, and the refusal tells the
// argument that is there), it takes no rights that Rung does not have anyway, policies change neither an
// exchange's arguments nor its life, and it is a part of exported definitions. A queue could expire or be
// limited by a policy; an argument that RabbitMQ does not know is not compared. Thread: the caller's, on its
// connection.

struct OwnerClaim {
  std::string database;  // our database's id
  bool mark = false;     // if there is no mark yet, set it
};

// A refusal closes the channel, which is opened again: not for a connection that consumes. Error: the
// connection has ended.
Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, const Calls& calls);

// --- the probe ---

// Whether the broker lets us consume another's queue, without taking a message from it. The broker closes the
// channel, whatever its answer. Errors: refused = no permission; not_found; transient = no answer.
Result<void> may_consume(const Calls& calls, std::string_view queue);

// Errors of all calls: not_found = it does not exist; refused = the broker's own refusal; transient = no
// answer.
class Probe {
 public:
  // Connects to the first address that accepts us. `purpose` becomes part of the connection's name. REQUIRES:
  // `clock` outlives it.
  static Result<std::unique_ptr<Probe>> open(const BrokerOptions& options, const Clock& clock, Ms timeout,
                                             const std::string& purpose = "doctor");
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  const Address& address() const { return connection_->address(); }

  // For `rung attach`: what the sidecar declares at start, so that even the first dead letter has a place to
  // wait: RabbitMQ silently drops a message that is dead-lettered to an exchange that does not exist.
  Result<void> declare(const BrokerOptions& options);
  Result<void> exchange_exists(std::string_view name);
  Result<void> queue_exists(std::string_view name);
  // How many messages are ready in the queue, and how many consumers it has. Unlike the management API's,
  // these are the present ones.
  struct Depth {
    std::int64_t ready = 0, consumers = 0;
  };
  Result<Depth> depth(std::string_view queue);
  // Checks write permission on the queue and read permission on the exchange. Both must exist.
  Result<void> may_bind(std::string_view queue, std::string_view exchange);
  // Declares an exclusive queue: checks configure permission.
  Result<void> may_declare(const std::string& name);
  // Checks read permission on that queue. It would take a message from a queue that has some.
  Result<void> may_read(std::string_view queue);
  // As the function above.
  Result<void> may_consume(std::string_view queue);
  // Publishes an empty message that reaches no queue: checks write permission on the exchange.
  // During an alarm the broker stops reading from a connection that publishes: the check then fails after the
  // timeout, and so do all later ones. So ask this last, and see blocked().
  Result<void> may_publish(std::string_view exchange, std::string_view unbound_key);
  // Whose the prefix is. If `claim.mark`, a free one becomes that database's.
  Result<PlaceReport> owner(const BrokerOptions& options, const OwnerClaim& claim);
  // Removes the mark of whoever has it.
  Result<void> remove_mark(const BrokerOptions& options);
  // Why the broker blocks this connection; "" = it does not.
  const std::string& blocked() const { return blocked_; }

 private:
  Probe(const Clock& clock, Ms timeout) : waker_(clock), timeout_(timeout) {}

  // The broker closes the channel with each refusal; the next check opens it again.
  // Calls `ask` (const Calls&) -> Result.
  template <typename Ask>
  std::invoke_result_t<Ask, const Calls&> check(Ask&& ask);
  Calls calls();

  Waker waker_;
  const Ms timeout_;
  std::unique_ptr<Connection> connection_;
  bool channel_open_ = false;
  std::string blocked_;
};

// An address of the broker: whether it answers and accepts our login.
struct AddressFacts {
  std::string address;
  Error error;          // its message is "" if the login succeeded
  std::string cluster;  // its name, as the broker reports it
};
// One per address, including hosts that do not resolve. Each gets `timeout`.
std::vector<AddressFacts> look_at_addresses(const BrokerOptions& options, const Clock& clock, Ms timeout);

}  // namespace rung::rabbit
