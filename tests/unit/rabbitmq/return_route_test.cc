// How RabbitMQ reaches one queue under another routing key.
#include "plugin/rabbitmq/topology/return_route.h"

#include <gtest/gtest.h>

namespace rung::rabbit {
namespace {

Outgoing routed(std::string queue, std::string key) {
  Outgoing outgoing{7, "", std::move(key), {}, PublishLane::main, std::move(queue)};
  route_to_queue(outgoing, "rung.return");
  return outgoing;
}

TEST(RouteToQueue, ByTheReturnExchangeWithTheQueuesBindingKey) {
  const Outgoing outgoing = routed("orders", "order.paid");
  EXPECT_EQ(outgoing.exchange, "rung.return");
  EXPECT_EQ(outgoing.routing_key, "order.paid");
  EXPECT_EQ(outgoing.message.headers, (Table{{"BCC", Array{Value{"queue:orders"}}}}));
  EXPECT_EQ(outgoing.queue, "orders");
}

TEST(RouteToQueue, ByTheDefaultExchangeWhereNoBindingKeyWillDo) {
  EXPECT_EQ(routed(std::string(249, 'q'), "order.paid").exchange, "rung.return");
  const std::string longest(250, 'q');
  for (const Outgoing& outgoing : {routed(longest, "order.paid"), routed(longest, "queue:invoices")}) {
    EXPECT_EQ(outgoing.exchange, "");
    EXPECT_EQ(outgoing.queue, "");
    EXPECT_EQ(outgoing.routing_key, longest);
    EXPECT_FALSE(outgoing.message.headers);
  }
  EXPECT_EQ(routed("orders", "queue:invoices").routing_key, "orders") << "it would reach invoices, too";
}

}  // namespace
}  // namespace rung::rabbit
