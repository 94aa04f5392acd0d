// Which queues can be error queues (the same answer for the sidecar and for `rung doctor`), and how they
// share the prefetch and the memory for unacked messages with Rung's own queues: a backlog in error queues
// neither fills the memory nor stands before fresh dead letters. Thread: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/management.h"

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

// Whether a pattern stands for this queue. Queues that cannot be consumed are skipped without a word.
inline bool may_match(const BrokerOptions& options, const QueueFacts& queue) {
  return !queue.exclusive && unfit(queue).empty() && !is_own_queue(options, queue.name);
}

// Of those that patterns match at most this many are consumed.
inline constexpr std::size_t kMostErrorQueues = 1000;
// Keeps that many, first those that are consumed already. Returns what to tell people; "" = all are kept.
inline std::string keep_some(std::vector<std::string>& found,
                             const std::function<bool(const std::string& queue)>& is_consumed) {
  if (found.size() <= kMostErrorQueues) return {};
  std::string told = "the patterns match " + std::to_string(found.size()) + " queues, of which " +
                     std::to_string(kMostErrorQueues) + " are consumed";
  // Not std::ranges: clang 14 cannot instantiate that of GCC 12.
  std::stable_partition(found.begin(), found.end(), is_consumed);
  found.resize(kMostErrorQueues);
  return told;
}

// Unacked messages of one error queue, as basic.qos takes it: a tenth of broker.prefetch.
inline std::uint16_t error_prefetch(int prefetch) {
  return static_cast<std::uint16_t>(std::clamp(prefetch / 10, 1, 65535));
}

// Bytes of unacked messages: a quarter for all error queues together, if there are any.
inline std::size_t error_intake_bytes(const BrokerOptions& options) {
  return options.error_queues->empty() ? 0 : options.max_intake_bytes / 4;
}
inline std::size_t own_intake_bytes(const BrokerOptions& options) {
  return options.max_intake_bytes - error_intake_bytes(options);
}

}  // namespace rung::rabbit
