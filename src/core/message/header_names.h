// The names of the headers that Rung sets and reads: the contract with consumers. Thread: constants, pure
// functions.
#pragma once

#include <string_view>

namespace rung {

namespace header {
// Added to messages that return to a queue.
inline constexpr std::string_view kId = "retry-id";
inline constexpr std::string_view kAttempt = "retry-attempt";
inline constexpr std::string_view kLevel = "retry-level";
inline constexpr std::string_view kLevels = "retry-levels";
inline constexpr std::string_view kLadder = "retry-ladder";  // also accepted from a consumer
inline constexpr std::string_view kFirstFailedAt = "retry-first-failed-at";
inline constexpr std::string_view kToken = "retry-token";  // also accepted, with a result or a failure
// Accepted from a consumer.
inline constexpr std::string_view kQueue = "retry-queue";
inline constexpr std::string_view kError = "retry-error";
inline constexpr std::string_view kErrorType = "retry-error-type";
inline constexpr std::string_view kAfter = "retry-after";
inline constexpr std::string_view kMaxAttempts = "retry-max-attempts";
inline constexpr std::string_view kNever = "retry-never";
inline constexpr std::string_view kResult = "retry-result";
inline constexpr std::string_view kExecutor = "retry-executor";
// Accepted with a request for a delay.
inline constexpr std::string_view kNotBefore = "retry-not-before";
inline constexpr std::string_view kExchange = "retry-exchange";
inline constexpr std::string_view kRoutingKey = "retry-routing-key";
// Added after a failure: where the message came from, and why it is retried.
inline constexpr std::string_view kOriginExchange = "retry-origin-exchange";
inline constexpr std::string_view kOriginRoutingKey = "retry-origin-routing-key";
inline constexpr std::string_view kReason = "retry-reason";
}  // namespace header

// Whether Rung reads or writes this header.
bool is_own_header(std::string_view name);

}  // namespace rung
