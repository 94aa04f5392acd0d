#include "plugin/rabbitmq/topology/return_route.h"

#include <string>

namespace rung::rabbit {

Result<void> declare_exchange(const std::string& return_exchange, ReturnExchange as, bool passive,
                              Connection& connection, Waker& waker, BootMs deadline,
                              const Connection::Others& others) {
  amqp_table_entry_t alternate{};
  alternate.key = amqp_cstring_bytes("alternate-exchange");
  alternate.value.kind = AMQP_FIELD_KIND_UTF8;
  alternate.value.value.bytes = bytes(return_exchange);
  amqp_exchange_declare_t exchange{};
  exchange.exchange = bytes(return_exchange);
  exchange.type = amqp_cstring_bytes("direct");
  exchange.durable = 1;
  exchange.passive = passive ? 1 : 0;
  if (as == ReturnExchange::own) exchange.arguments = {1, &alternate};
  const auto done = connection.call(AMQP_EXCHANGE_DECLARE_METHOD, &exchange, AMQP_EXCHANGE_DECLARE_OK_METHOD,
                                    waker, deadline, others);
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<void> bind_target_queue(const std::string& return_exchange, ReturnExchange as, const std::string& key,
                               Connection& connection, Waker& waker, BootMs deadline,
                               const Connection::Others& others) {
  const auto declared = declare_exchange(return_exchange, as, false, connection, waker, deadline, others);
  if (!declared) return declared;
  const std::string queue = queue_of(key);
  amqp_queue_bind_t binding{};
  binding.queue = bytes(queue);
  binding.exchange = bytes(return_exchange);
  binding.routing_key = bytes(key);
  const auto done =
      connection.call(AMQP_QUEUE_BIND_METHOD, &binding, AMQP_QUEUE_BIND_OK_METHOD, waker, deadline, others);
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace rung::rabbit
