// Calls to the broker on a connection's channel: a method, and the broker's answer to it.
// Thread: the connection's.
#pragma once

#include <cstdint>
#include <string_view>

#include "plugin/rabbitmq/wire/connection.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

inline constexpr const char* kFanout = "fanout";  // types of exchanges
inline constexpr const char* kDirect = "direct";

// Sends basic.cancel with no-wait: no answer comes.
inline void send_cancel(Connection& connection, std::string_view consumer_tag) {
  amqp_basic_cancel_t fields{};
  fields.consumer_tag = bytes(consumer_tag);
  fields.nowait = 1;
  connection.method(kChannel, AMQP_BASIC_CANCEL_METHOD, &fields);
}

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
  Result<void> send(amqp_method_number_t id, const void* fields, amqp_method_number_t answer = 0) const {
    if (const auto done = ask(id, fields, answer); !done) return tl::unexpected(done.error());
    return {};
  }
  Result<void> open_channel() const {
    const amqp_channel_open_t fields{};
    return send(AMQP_CHANNEL_OPEN_METHOD, &fields);
  }

  // Declares, durable. passive: only checks that it exists, which needs no right.
  Result<void> exchange(std::string_view name, const char* type, bool passive = false,
                        amqp_table_t arguments = amqp_empty_table) const {
    amqp_exchange_declare_t fields{};
    fields.exchange = bytes(name);
    fields.type = amqp_cstring_bytes(type);
    fields.durable = 1;
    fields.passive = passive ? 1 : 0;
    fields.arguments = arguments;
    return send(AMQP_EXCHANGE_DECLARE_METHOD, &fields);
  }
  Result<void> exchange_with_alternate(std::string_view name, const char* type,
                                       std::string_view alternate) const {
    amqp_table_entry_t entry = text_entry("alternate-exchange", alternate);
    return exchange(name, type, false, {1, &entry});
  }
  Result<void> queue(std::string_view name, amqp_table_t arguments) const {
    amqp_queue_declare_t fields{};
    fields.queue = bytes(name);
    fields.durable = 1;
    fields.arguments = arguments;
    return send(AMQP_QUEUE_DECLARE_METHOD, &fields);
  }
  // A passive declare of a queue: how many messages are ready in it, and how many consumers it has. Of the
  // result, only these two may be used: its text is gone with the frame.
  Result<amqp_queue_declare_ok_t> look_at_queue(std::string_view name) const {
    amqp_queue_declare_t fields{};
    fields.queue = bytes(name);
    fields.passive = 1;
    const auto answer = ask(AMQP_QUEUE_DECLARE_METHOD, &fields);
    if (!answer) return tl::unexpected(answer.error());
    return *static_cast<const amqp_queue_declare_ok_t*>(*answer);
  }
  // basic.qos: the unacked messages of each consumer that begins from now on.
  Result<void> prefetch(std::uint16_t most) const {
    amqp_basic_qos_t fields{};
    fields.prefetch_count = most;
    return send(AMQP_BASIC_QOS_METHOD, &fields);
  }
  // basic.consume. The consumer tag is the queue's name.
  Result<void> consume(std::string_view queue, amqp_table_t arguments = amqp_empty_table) const {
    amqp_basic_consume_t fields{};
    fields.queue = bytes(queue);
    fields.consumer_tag = bytes(queue);
    fields.arguments = arguments;
    return send(AMQP_BASIC_CONSUME_METHOD, &fields);
  }
  // basic.cancel. What the broker sent before has arrived with the answer.
  Result<void> cancel(std::string_view consumer_tag) const {
    amqp_basic_cancel_t fields{};
    fields.consumer_tag = bytes(consumer_tag);
    return send(AMQP_BASIC_CANCEL_METHOD, &fields);
  }
  Result<void> bind(std::string_view queue, std::string_view exchange, std::string_view key = {}) const {
    amqp_queue_bind_t fields{};
    fields.queue = bytes(queue);
    fields.exchange = bytes(exchange);
    fields.routing_key = bytes(key);
    return send(AMQP_QUEUE_BIND_METHOD, &fields);
  }
  Result<void> unbind(std::string_view queue, std::string_view exchange, std::string_view key = {}) const {
    amqp_queue_unbind_t fields{};
    fields.queue = bytes(queue);
    fields.exchange = bytes(exchange);
    fields.routing_key = bytes(key);
    return send(AMQP_QUEUE_UNBIND_METHOD, &fields);
  }
};

}  // namespace rung::rabbit
