// Calls to the broker on a connection's channel: a method, and the broker's answer to it.
// Thread: the connection's.
#pragma once

#include <string_view>

#include "plugin/rabbitmq/wire/connection.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

inline constexpr const char* kFanout = "fanout";  // types of exchanges
inline constexpr const char* kDirect = "direct";

// Sends basic.cancel with no-wait: no answer comes.
void send_cancel(Connection& connection, std::string_view consumer_tag);

struct Calls {
  Connection& connection;
  Waker& waker;
  BootMs deadline;
  Connection::Others others = [](const Frame&) {};  // gets the other frames that come meanwhile

  // As Connection::call(); returns the fields of the answer.
  Result<const void*> ask(amqp_method_number_t id, const void* fields,
                          amqp_method_number_t answer = 0) const {
    return connection.call(id, fields, waker, deadline, others, answer);
  }
  // The same, for an answer whose fields are not needed.
  Result<void> send(amqp_method_number_t id, const void* fields, amqp_method_number_t answer = 0) const;
  Result<void> open_channel() const;

  // Declares, durable. passive: only checks that it exists, which needs no right.
  Result<void> exchange(std::string_view name, const char* type, bool passive = false) const;
  Result<void> exchange_with_alternate(std::string_view name, const char* type,
                                       std::string_view alternate) const;
  Result<void> queue(std::string_view name, amqp_table_t arguments) const;
  // A passive declare of a queue: how many messages are ready in it, and how many consumers it has. Of the
  // result, only these two may be used: its text is gone with the frame.
  Result<amqp_queue_declare_ok_t> look_at_queue(std::string_view name) const;
  // basic.cancel. What the broker sent before has arrived with the answer.
  Result<void> cancel(std::string_view consumer_tag) const;
  Result<void> bind(std::string_view queue, std::string_view exchange, std::string_view key = {}) const;
  Result<void> unbind(std::string_view queue, std::string_view exchange, std::string_view key = {}) const;
};

}  // namespace rung::rabbit
