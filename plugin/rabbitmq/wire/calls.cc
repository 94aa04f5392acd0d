#include "plugin/rabbitmq/wire/calls.h"

namespace rung::rabbit {
namespace {

Result<void> declare_exchange(const Calls& calls, std::string_view name, const char* type, bool passive,
                              amqp_table_t arguments) {
  amqp_exchange_declare_t fields{};
  fields.exchange = bytes(name);
  fields.type = amqp_cstring_bytes(type);
  fields.durable = 1;
  fields.passive = passive ? 1 : 0;
  fields.arguments = arguments;
  return calls.send(AMQP_EXCHANGE_DECLARE_METHOD, &fields);
}

}  // namespace

void send_cancel(Connection& connection, std::string_view consumer_tag) {
  amqp_basic_cancel_t fields{};
  fields.consumer_tag = bytes(consumer_tag);
  fields.nowait = 1;
  connection.method(kChannel, AMQP_BASIC_CANCEL_METHOD, &fields);
}

Result<void> Calls::send(amqp_method_number_t id, const void* fields, amqp_method_number_t answer) const {
  if (const auto done = ask(id, fields, answer); !done) return tl::unexpected(done.error());
  return {};
}

Result<void> Calls::open_channel() const {
  const amqp_channel_open_t fields{};
  return send(AMQP_CHANNEL_OPEN_METHOD, &fields);
}

Result<void> Calls::exchange(std::string_view name, const char* type, bool passive) const {
  return declare_exchange(*this, name, type, passive, amqp_empty_table);
}

Result<void> Calls::exchange_with_alternate(std::string_view name, const char* type,
                                            std::string_view alternate) const {
  amqp_table_entry_t entry = text_entry("alternate-exchange", alternate);
  return declare_exchange(*this, name, type, false, {1, &entry});
}

Result<void> Calls::queue(std::string_view name, amqp_table_t arguments) const {
  amqp_queue_declare_t fields{};
  fields.queue = bytes(name);
  fields.durable = 1;
  fields.arguments = arguments;
  return send(AMQP_QUEUE_DECLARE_METHOD, &fields);
}

Result<amqp_queue_declare_ok_t> Calls::look_at_queue(std::string_view name) const {
  amqp_queue_declare_t fields{};
  fields.queue = bytes(name);
  fields.passive = 1;
  const auto answer = ask(AMQP_QUEUE_DECLARE_METHOD, &fields);
  if (!answer) return tl::unexpected(answer.error());
  return *static_cast<const amqp_queue_declare_ok_t*>(*answer);
}

Result<void> Calls::cancel(std::string_view consumer_tag) const {
  amqp_basic_cancel_t fields{};
  fields.consumer_tag = bytes(consumer_tag);
  return send(AMQP_BASIC_CANCEL_METHOD, &fields);
}

Result<void> Calls::bind(std::string_view queue, std::string_view exchange, std::string_view key) const {
  amqp_queue_bind_t fields{};
  fields.queue = bytes(queue);
  fields.exchange = bytes(exchange);
  fields.routing_key = bytes(key);
  return send(AMQP_QUEUE_BIND_METHOD, &fields);
}

Result<void> Calls::unbind(std::string_view queue, std::string_view exchange, std::string_view key) const {
  amqp_queue_unbind_t fields{};
  fields.queue = bytes(queue);
  fields.exchange = bytes(exchange);
  fields.routing_key = bytes(key);
  return send(AMQP_QUEUE_UNBIND_METHOD, &fields);
}

}  // namespace rung::rabbit
