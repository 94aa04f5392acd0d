// What a retry says of where its message came from and why it is retried; and whether it goes back under its
// original routing key. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/task.h"

namespace rung {

namespace header {
inline constexpr std::string_view kOriginExchange = "retry-origin-exchange";
inline constexpr std::string_view kOriginRoutingKey = "retry-origin-routing-key";
inline constexpr std::string_view kReason = "retry-reason";
}  // namespace header

// rejected, expired, maxlen, delivery_limit, returned or silent: why the last attempt failed. "" for a task
// that has not failed. REQUIRES: the task as fail() and the intake leave it.
std::string_view retry_reason(const Task& task);

// Adds the three headers above. Nothing for a task that has not failed.
void add_origin(Table& headers, const Task& task);

// Whether the task's message has an original routing key to go back to its queue with: one that it had at
// another exchange than `prefix`.*, and that the row holds to the byte. Whether the broker can do that is its
// plugin's affair. False: its routing key is the queue's name.
bool keeps_routing_key(const Task& task, std::string_view prefix);

}  // namespace rung
