// The header names of the contract, and what is read from and written to a message's headers.
// Thread: pure functions. Nothing here throws or fails: what does not parse becomes a complaint.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/broker_facts.h"
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
inline constexpr std::string_view kToken = "retry-token";  // also taken: a result or a failure shows it
// Taken from a consumer.
inline constexpr std::string_view kQueue = "retry-queue";
inline constexpr std::string_view kError = "retry-error";
inline constexpr std::string_view kErrorType = "retry-error-type";
inline constexpr std::string_view kAfter = "retry-after";
inline constexpr std::string_view kMaxAttempts = "retry-max-attempts";
inline constexpr std::string_view kNever = "retry-never";
inline constexpr std::string_view kResult = "retry-result";
inline constexpr std::string_view kExecutor = "retry-executor";
// Taken from whoever asks for a delay.
inline constexpr std::string_view kNotBefore = "retry-not-before";
inline constexpr std::string_view kExchange = "retry-exchange";
inline constexpr std::string_view kRoutingKey = "retry-routing-key";
}  // namespace header

// What a message that arrives at rung.failed says.
struct Failure {
  std::optional<TaskId> id;  // retry-id: it came back from one of our deliveries
  int attempt = 0;           // retry-attempt; 0 = not there
  std::string token;         // retry-token; "" = not there
  std::optional<int> level;  // retry-level, and retry-first-failed-at: as our delivery had them
  std::optional<EpochMs> first_failed_at;
  std::string queue;                  // retry-queue, else the broker's record; "" = nobody knows
  std::string_view queue_by;          // which of these names it, for people: a constant; "" where none does
  std::string exchange, routing_key;  // by which it had come to that queue, as far as is known
  std::string error, error_type;      // retry-error; else "dead-lettered: rejected (from orders)" or alike
  std::string executor;               // retry-executor
  Directives directives;
  std::optional<std::int64_t> failed_at_s;  // as the broker recorded it: FailureFacts
  std::int64_t failed_count = 0;
};
// `exchange`, `routing_key`: as it was published to the inlet. `facts`: what the broker's plugin says of it.
Failure read_failure(const Message& message, std::string_view exchange, std::string_view routing_key,
                     const FailureFacts& facts = {});

// What a message at rung.results says.
struct ResultWord {
  std::optional<TaskId> id;
  int attempt = 0;
  std::string token;  // retry-token; "" = not there
  bool succeeded = false;
  std::string error, error_type, executor;
  Directives directives;  // retry-after and the like go with a failure here too
  std::string complaint;  // not empty: it cannot be used, and why
};
ResultWord read_result(const Message& message);

// Where delayed messages come in, and where those go on to that say nothing about it.
struct DelayRoutes {
  using Moves = std::map<std::string, std::string, std::less<>>;
  std::string inlet;  // <prefix>.delay: exchange and queue
  Moves
      moves;  // the exchange that a message was published to -> the one it goes on to: delays: of the config
};

// What a message that arrives at rung.delay asks for.
struct DelayRequest {
  // retry-queue; else retry-exchange, or the mapping's, with retry-routing-key or the message's own. Not set:
  // its tag's of the config, else `otherwise`.
  Target target;
  std::string_view target_by;         // what of the message names it: a constant; "" = the config does
  std::string otherwise;              // a queue: the routing key of what was published to rung.delay itself
  Ms delay{0};                        // DelayFacts::delay, from the intake on; 0 = at once
  std::optional<EpochMs> not_before;  // retry-not-before; the later of the two holds
  std::string exchange, routing_key;  // where it was published to: for people
  Directives directives;
  std::string refusal;  // not empty: it cannot be done as it was asked, and why; a person has to look

  EpochMs due(EpochMs now) const { return std::max(now + delay, not_before.value_or(now)); }
};
DelayRequest read_delay(const Message& message, std::string_view exchange, std::string_view routing_key,
                        const DelayRoutes& routes, const DelayFacts& asked = {});

// The message as it goes out again. Off: every retry-* of ours, the header that facts.delay names;
// expiration, user-id; delivery_mode 2. The broker's own headers are off already. Body to the byte.
// `origin_json` takes what was taken off, the broker's headers among it, for the row.
Message strip(const Message& message, std::string* origin_json, const BrokerFacts& facts = {});

// `message` with the retry-* headers of the attempt under way. `token`: retry-token.
Message dress(const Message& message, const Task& task, std::string token);

// 16 bytes that the same intake has again, "" where there is no message-id.
std::string intake_key(const Failure& failure, const Message& message);
// `stripped`: the message as it goes out again. Its headers count: what differs in them is another message.
std::string intake_key(const DelayRequest& request, const Message& message, const Message& stripped);

}  // namespace rung
