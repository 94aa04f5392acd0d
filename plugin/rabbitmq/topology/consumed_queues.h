// What a Consumer consumes: Rung's own queues (own_queues.h) or error queues (error_consumers.h).
// Thread: the consumer's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

class ConsumedQueues {
 public:
  virtual ~ConsumedQueues() = default;

  // A new connection, before anything is consumed on it: declares what is needed.
  virtual Result<void> declare(const Calls& calls) = 0;
  // The connection is ready; and it has ended, or could not be made.
  virtual void up(const Connection& connection) = 0;
  virtual void down(const Error& why) = 0;
  // A new channel: nothing is consumed on it.
  virtual void begin_channel() = 0;

  virtual Result<void> consume(const Calls& calls) = 0;
  // Sends basic.cancel and waits for the answers: what the broker sent before has arrived by then.
  virtual Result<void> cancel(const Calls& calls) = 0;
  // The same, without waiting.
  virtual void send_cancel(Connection& connection) = 0;

  // Whether change() has something to do. `consuming`: the intake is neither paused nor stopped.
  virtual bool must_change(bool consuming) const = 0;
  enum class Changed : std::uint8_t {
    done,
    channel_closed,  // by the broker, because of one queue: go on with a new channel
  };
  // Error: the connection is of no use any more.
  virtual Result<Changed> change(const Calls& calls, bool consuming) = 0;
  // The broker has cancelled this consumer.
  virtual void cancelled(std::string_view consumer_tag) = 0;

  struct Origin {
    Inlet inlet = Inlet::failed;
    std::string source = {};  // Inlet::error: the queue
  };
  virtual Origin origin(std::string_view consumer_tag) const = 0;
};

}  // namespace rung::rabbit
