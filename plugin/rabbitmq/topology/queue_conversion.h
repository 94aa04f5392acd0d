// Gives one of Rung's own queues another type (classic, quorum). RabbitMQ cannot change a type, so a queue of
// the same name has to take its place, and messages keep arriving meanwhile:
//
//   bind QUEUE.moving, unbind QUEUE     what arrives waits in QUEUE.moving
//   move QUEUE into QUEUE.moving        each message is acked once the other queue has it
//   delete QUEUE, declare it again      a second after the last message; nobody else may consume it
//   bind QUEUE, unbind QUEUE.moving
//   move QUEUE.moving into QUEUE, delete QUEUE.moving
//
// Nothing is lost at any end of the process: the next call goes on from what it finds. A message that arrives
// between a bind and an unbind is in both queues; one whose ack was lost is moved again: Rung recognizes both
// by their message-id, as any message that is delivered twice. The queue itself is missing for an instant:
// only messages that name it instead of its exchange can meet that.
//
// Thread: one. Every call blocks; each step is bounded by the timeout, the whole by the number of messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/command_connection.h"
#include "plugin/rabbitmq/topology/dead_letter_routes.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// The queue that takes the messages meanwhile.
inline std::string moving_queue(const std::string& queue) { return queue + ".moving"; }

class QueueConverter {
 public:
  // Connects to the first address that accepts us. REQUIRES: `clock` outlives it.
  static Result<std::unique_ptr<QueueConverter>> open(const BrokerOptions& options, const Clock& clock,
                                                      Ms timeout);

  // How many consumers the queue has; not_found.
  Result<std::uint32_t> consumers(const std::string& queue);
  // `bindings`: of the queue and of its moving_queue(), without those of the default exchange. Returns how
  // many messages were moved. Errors: refused = it has consumers, or a right is missing.
  Result<std::int64_t> convert(const std::string& queue, const std::vector<Binding>& bindings,
                               const std::string& type);

 private:
  class Mover;

  explicit QueueConverter(std::unique_ptr<CommandConnection> its) : its_(std::move(its)) {}
  // Calls `ask` (const Calls&) -> Result. If the broker refuses, opens the channel again, and sorts the
  // error.
  template <typename Ask>
  std::invoke_result_t<Ask, const Calls&> check(Ask&& ask);
  Result<void> declare(const std::string& queue, const std::string& type);
  // Whether the queue exists, and with that type.
  enum class There { no, as_wanted, otherwise };
  Result<There> look(const std::string& queue, const std::string& type);
  // `to`, of that type, takes the place of `from`: its bindings and its messages.
  Result<std::int64_t> replace(const std::string& from, const std::string& to, const std::string& type,
                               const std::vector<Binding>& bindings);
  // Moves all messages, each to the exchange that it came by if that is one of `bindings`, else straight into
  // `to`; then deletes the queue, a second after the last message. REQUIRES: nobody consumes it.
  Result<std::int64_t> move_and_delete(const std::string& from, const std::string& to,
                                       const std::vector<Binding>& bindings);

  const std::unique_ptr<CommandConnection> its_;
};

}  // namespace rung::rabbit
