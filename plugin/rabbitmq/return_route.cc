#include "plugin/rabbitmq/return_route.h"

#include <string>

namespace rung::rabbit {

Result<void> bind_target_queue(const std::string& return_exchange, const std::string& key,
                               Connection& connection, Waker& waker, BootMs deadline,
                               const Connection::Others& others) {
  amqp_exchange_declare_t exchange{};
  exchange.exchange = bytes(return_exchange);
  exchange.type = amqp_cstring_bytes("direct");
  exchange.durable = 1;
  auto done = connection.call(AMQP_EXCHANGE_DECLARE_METHOD, &exchange, AMQP_EXCHANGE_DECLARE_OK_METHOD, waker,
                              deadline, others);
  if (!done) return tl::unexpected(done.error());
  const std::string queue = queue_of(key);
  amqp_queue_bind_t binding{};
  binding.queue = bytes(queue);
  binding.exchange = bytes(return_exchange);
  binding.routing_key = bytes(key);
  done =
      connection.call(AMQP_QUEUE_BIND_METHOD, &binding, AMQP_QUEUE_BIND_OK_METHOD, waker, deadline, others);
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace rung::rabbit
