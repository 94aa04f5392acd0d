// Reads and writes the headers of the contract (src/core/message/header_values.h).
// Thread: pure functions. Nothing here throws or fails: a value that does not parse becomes a complaint.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/machine/machine.h"
#include "src/core/message/header_values.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// A message that arrives at rung.failed, as read: what it says of the failure (`queue`: retry-queue, else the
// broker's record, "" = unknown; `error`: retry-error, else "dead-lettered: rejected (from orders)" or
// alike), and of which message. The intake sets what the token proves, message_id and received.
struct Failure : event::Failed {
  std::optional<TaskId> id;                 // retry-id: it comes from one of our deliveries
  std::string token;                        // retry-token; "" = not there
  std::optional<EpochMs> first_failed_at;   // retry-first-failed-at: as our delivery had it
  std::string_view queue_by;                // what names the queue, for people: a constant; "" = nothing
  bool queue_by_config = false;             // the config names it: an error queue's `to`
  std::string exchange, routing_key;        // that took it to that queue, as far as is known
  bool routed_by_record = false;            // the broker recorded these two; no header named them
  std::optional<std::int64_t> failed_at_s;  // recorded by the broker: FailureFacts
  std::int64_t failed_count = 0;
};
// `exchange`, `routing_key`: with which it was published to the inlet. `facts`: from the broker's plugin.
Failure read_failure(const Message& message, std::string_view exchange, std::string_view routing_key,
                     const FailureFacts& facts = {});

// A message at rung.results, as read. What may accompany a failure, retry-after and the like, may do so here.
struct ResultWord : event::Failed {
  std::optional<TaskId> id;
  std::string token;  // retry-token; "" = not there
  bool succeeded = false;
  std::string complaint;  // not empty: why it cannot be used
};
ResultWord read_result(const Message& message);

// Where delayed messages arrive, and where they go if they name no target.
struct DelayRoutes {
  using Moves = std::map<std::string, std::string, std::less<>>;
  std::string inlet;  // <prefix>.delay: exchange and queue
  Moves
      moves;  // the exchange that a message was published to -> the one it goes on to: delays: of the config
};

// The request of a message that arrives at rung.delay.
struct DelayRequest {
  // retry-queue; else retry-exchange, or the mapping's exchange, with retry-routing-key or the message's own
  // routing key. If not set: the target of its tag in the config, else `otherwise`.
  Target target;
  std::string_view target_by;         // which part of the message names it: a constant; "" = the config does
  std::string otherwise;              // a queue: the routing key of a message published to rung.delay itself
  Ms delay{0};                        // DelayFacts::delay, from the intake; 0 = none
  std::optional<EpochMs> not_before;  // retry-not-before; the later of the two applies
  std::string exchange, routing_key;  // where it was published to: for people
  Directives directives;
  std::string refusal;  // not empty: why the request cannot be met; a person has to look

  EpochMs due(EpochMs now) const { return std::max(now + delay, not_before.value_or(now)); }
};
DelayRequest read_delay(const Message& message, std::string_view exchange, std::string_view routing_key,
                        const DelayRoutes& routes, const DelayFacts& asked = {});

// The message as it is published again. Removes all our retry-* headers, the header that facts.delay names,
// expiration and user-id; sets delivery_mode 2. The broker's own headers are removed already. The body stays
// the same to the byte. `origin_json` receives what was removed, with the broker's headers, and retry-error
// and retry-error-type as a dialect has read them, for the row.
Message strip(const Message& message, std::string* origin_json, const BrokerFacts& facts = {});

// `message` with the retry-* headers of the attempt under way. `token`: retry-token.
Message dress(const Message& message, const Task& task, std::string token);

// 16 bytes, the same for the same intake; "" if there is no message-id. `digest`: message_digest() of the
// message as it is published again.
std::string intake_key(const Failure& failure, const Message& message, std::string_view digest);
std::string intake_key(const DelayRequest& request, const Message& message, std::string_view digest);

}  // namespace rung
