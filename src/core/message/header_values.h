// The headers that Rung sets and reads: their names, which are the contract with consumers, and how to read
// one, whatever type a client gave its value. Thread: constants, pure functions. Nothing here throws or
// fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/message/message.h"

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

namespace reading {

// The value of a header; nullptr if it is absent or null (clients write unset values as null).
const Value* said(const std::optional<Table>& headers, std::string_view name);
std::string text_of(const Value* value);
// From an integer of any width, or its decimal text: clients encode numbers differently. What exceeds an
// int64 becomes its largest or smallest.
std::optional<std::int64_t> int_of(const Value* value);
// Also from a float or decimal (truncated).
std::optional<std::int64_t> number_of(const Value& value);
// " 'text'" for a text value, shortened, to quote it in a refusal; "" for other types.
std::string shown(const Value& value);
// "" if no queue can have that name or no column can store it: 255 bytes at most, UTF-8.
std::string queue_name(const Value* value);
// Appends "NAME is not understood: WANTS" to earlier complaints.
void complain(std::string& complaint, std::string_view name, std::string_view wants);

}  // namespace reading
}  // namespace rung
