// Messages for which RabbitMQ closes the channel whatever their target is. They are not sent: a closed
// channel leaves every other publish on it unanswered, so that those are repeated. Thread: pure functions.
//
// What else closes a channel is dealt with elsewhere: expiration, user-id, CC and BCC are taken off when a
// message comes in, a body over max_message_size goes over a channel of its own (Routing), names and headers
// that do not fit are refused by the codec.
#pragma once

#include <string>
#include <string_view>

#include "src/core/message.h"

namespace rung::rabbit {

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
