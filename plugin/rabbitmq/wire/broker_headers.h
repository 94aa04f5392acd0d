// The headers in which RabbitMQ and the delayed-message exchange describe a message: parsed into neutral
// facts, and removed before a message is published again. Thread: pure functions. Nothing here throws or
// fails: anybody can write these headers, and a header that does not parse counts as missing.
//
//   x-death, x-first-death-*, x-last-death-*   dead-lettering. RabbitMQ 4 ignores them on a message that is
//                                              published again; older versions continue their count
//   x-delivery-count, x-acquired-count         quorum queues
//   x-opt-*                                    annotations of AMQP 1.0, which RabbitMQ 4 shows as headers; a
//                                              broker may turn x-opt-delivery-time into a delay of its own
//   CC, BCC                                    further routing keys: the message would fan out again
//   x-delay                                    the delayed-message exchange: ms to wait
#pragma once

#include <string>
#include <string_view>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/message/message.h"

namespace rung::rabbit {

inline constexpr std::string_view kDelayHeader = "x-delay";

// All of them except x-delay, which belongs to the application until it reaches <prefix>.delay.
ReservedHeaders reserved_headers();

// A message that came by another inlet than its own: it expired there, by its own TTL (QueueArguments), or
// its queue was being declared anew (declare_topology()). Makes of it what it was in its inlet. Call it
// before take_broker_headers().
void take_back(Delivery& delivery, const BrokerOptions& options);

// Removes the reserved headers from `message`, which came in at `inlet`. Does nothing for Inlet::results.
// x-delay stays in place: it counts only at Inlet::delay, and DelayFacts::header names it there. Elsewhere
// the delayed-message exchange left it behind, and it belongs to the application.
BrokerFacts take_broker_headers(Message& message, Inlet inlet);

// Messages for which RabbitMQ closes the channel whatever their target is. They are not sent: a closed
// channel leaves every other publish on it unanswered, so that those are repeated. Thread: pure functions.
//
// What else closes a channel is dealt with elsewhere: expiration, user-id, CC and BCC are taken off when a
// message comes in, a body over max_message_size goes over a channel of its own (Routing), names and headers
// that do not fit are refused by the codec.

// Direct reply-to: accepted only from a channel that consumes this pseudo-queue. The names that the broker
// makes of it ("amq.rabbitmq.reply-to.g1h2...") may be published as a reply-to, by anybody.
inline constexpr std::string_view kDirectReplyTo = "amq.rabbitmq.reply-to";

// Why it cannot be published; "" = it can.
inline std::string unpublishable(const Message& message) {
  if (message.properties.reply_to != kDirectReplyTo) return {};
  return "its reply-to is " + std::string(kDirectReplyTo) +
         ", which RabbitMQ accepts only from the connection that waits for the reply";
}

}  // namespace rung::rabbit
