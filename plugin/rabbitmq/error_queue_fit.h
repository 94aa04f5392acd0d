// Which queues can be error queues: the same answer for the sidecar and for `rung doctor`. Thread: pure
// functions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/management.h"

namespace rung::rabbit {

// One of Rung's own queues, of any group of the config.
inline bool is_own_queue(const BrokerOptions& options, std::string_view queue) {
  const auto begins = [&](const std::string& prefix) { return queue.starts_with(prefix + "."); };
  return begins(options.prefix) || std::ranges::any_of(options.group_prefixes, begins);
}

// Why Rung does not consume this queue; "" = it does. An exclusive queue is refused by the broker itself.
inline std::string unfit(const QueueFacts& queue) {
  if (queue.auto_delete)
    return "it is deleted with its messages when its last consumer leaves; declare it without auto-delete";
  if (queue.type == "stream") return "it is a stream: its messages stay when they are acked; use a queue";
  return {};
}

// Those that `entry`, a pattern, stands for. Queues that cannot be consumed are skipped: a pattern does not
// ask for each of them.
inline std::vector<std::string> matching_queues(const BrokerOptions& options, const ErrorQueue& entry,
                                                const std::vector<QueueFacts>& queues) {
  std::vector<std::string> names;
  for (const QueueFacts& queue : queues) {
    const bool fits = !queue.exclusive && unfit(queue).empty() && !is_own_queue(options, queue.name);
    if (fits && options.error_queues->find(queue.name) == &entry) names.push_back(queue.name);
  }
  return names;
}

}  // namespace rung::rabbit
