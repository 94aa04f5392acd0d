// The headers that tell a consumer where a retried message came from and why it is retried; and whether it
// returns under its original routing key. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/message/header_names.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"

namespace rung {

// rejected, expired, maxlen, delivery_limit, returned or silent: why the last attempt failed. "" for a task
// that has not failed. REQUIRES: the task is as fail() and the intake leave it.
std::string_view retry_reason(const Task& task);

// Adds retry-origin-exchange, retry-origin-routing-key and retry-reason; none for a task that has not failed.
void add_origin(Table& headers, const Task& task);

// What a message had before it came back with other properties or headers, as JSON (message_json.h).
struct EarlierContent {
  int attempt = 0;  // whose delivery had it
  std::string properties, headers;
};
// A row's origin (NewTask::origin_json) with one more of these under kEarlierContent, an array. It keeps
// the first and the latest, kMostEarlier in all.
inline constexpr const char* kEarlierContent = "earlier content";
inline constexpr std::size_t kMostEarlier = 10;
std::string add_earlier(std::string_view origin_json, const EarlierContent& earlier);
// The origin for those who may not see messages: without what is part of one, and without retry-token. "" =
// it is not known.
std::string without_content(std::string_view origin_json);

// Whether the message returns to its queue with its original routing key: the key it had at an exchange other
// than `prefix`.*, stored in the row to the byte. The plugin decides whether the broker can do that. False:
// the routing key is the queue's name.
bool keeps_routing_key(const Task& task, std::string_view prefix);

}  // namespace rung
