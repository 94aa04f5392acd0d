#include "plugin/rabbitmq/topology/return_route.h"

#include <string>

namespace rung::rabbit {

Result<void> declare_exchange(const std::string& return_exchange, ReturnExchange as, const Calls& calls) {
  if (as == ReturnExchange::plain) return calls.exchange(return_exchange, kDirect);
  return calls.exchange_with_alternate(return_exchange, kDirect, return_exchange);
}

Result<void> bind_target_queue(const std::string& return_exchange, ReturnExchange as, const std::string& key,
                               const Calls& calls) {
  if (auto declared = declare_exchange(return_exchange, as, calls); !declared) return declared;
  return calls.bind(queue_of(key), return_exchange, key);
}

}  // namespace rung::rabbit
