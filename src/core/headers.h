// The header names of the contract, and what is read from and written to a message's headers.
// Thread: pure functions. Nothing here throws or fails: what does not parse becomes a complaint.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/policy.h"
#include "src/core/task.h"

namespace rung {

namespace header {
// Added to what comes back to a queue.
inline constexpr std::string_view kId = "retry-id";
inline constexpr std::string_view kAttempt = "retry-attempt";
inline constexpr std::string_view kLevel = "retry-level";
inline constexpr std::string_view kLevels = "retry-levels";
inline constexpr std::string_view kLadder = "retry-ladder";  // also taken from a consumer
inline constexpr std::string_view kFirstFailedAt = "retry-first-failed-at";
// Taken from a consumer.
inline constexpr std::string_view kQueue = "retry-queue";
inline constexpr std::string_view kError = "retry-error";
inline constexpr std::string_view kErrorType = "retry-error-type";
inline constexpr std::string_view kAfter = "retry-after";
inline constexpr std::string_view kMaxAttempts = "retry-max-attempts";
inline constexpr std::string_view kNever = "retry-never";
inline constexpr std::string_view kResult = "retry-result";
inline constexpr std::string_view kNotBefore = "retry-not-before";
}  // namespace header

// What a message that arrives at rung.failed says.
struct Failure {
  std::optional<TaskId> id;  // retry-id: it came back from one of our deliveries
  int attempt = 0;           // retry-attempt; 0 = not there
  std::string queue;         // retry-queue, else x-death[0].queue, else x-last-death-queue; "" = nobody knows
  std::string exchange, routing_key;  // x-death[0].exchange and its first routing key
  std::string error, error_type;      // retry-error; else "dead-lettered: rejected (from orders)" or alike
  Directives directives;
  std::optional<std::int64_t> died_at_s;  // x-death[0].time
  std::int64_t death_count = 0;           // x-death[0].count
};
Failure read_failure(const Message& message, std::string_view exchange, std::string_view routing_key);

// What a message at rung.results says.
struct ResultWord {
  std::optional<TaskId> id;
  int attempt = 0;
  bool succeeded = false;
  std::string error, error_type;
  Directives directives;  // retry-after and the like go with a failure here too
  std::string complaint;  // not empty: it cannot be used, and why
};
ResultWord read_result(const Message& message);

// The message as it goes out again. Off: x-death, x-first-death-*, x-last-death-*, x-delivery-count,
// x-acquired-count, CC, BCC, every retry-* of ours; expiration, user-id; delivery_mode 2. Body to the byte.
// `origin_json` takes what was taken off, for the row.
Message strip(const Message& message, std::string* origin_json);

// `message` with the retry-* headers of the attempt under way.
Message dress(const Message& message, const Task& task);

// 16 bytes that the same intake has again, "" where there is no message-id.
std::string intake_key(const Failure& failure, const Message& message);

}  // namespace rung
