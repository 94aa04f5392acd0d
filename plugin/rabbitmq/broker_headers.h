// The headers by which RabbitMQ, and the delayed-message exchange, say something of a message: read into
// neutral facts, and taken off what is published again. Thread: pure functions. Nothing here throws or fails:
// anybody can write these headers, and what does not parse is as if it were not there.
//
//   x-death, x-first-death-*, x-last-death-*   dead-lettering. RabbitMQ 4 ignores them on a message that is
//                                              published again; older versions count on from them
//   x-delivery-count, x-acquired-count         quorum queues
//   x-opt-*                                    annotations of AMQP 1.0, which RabbitMQ 4 shows as headers; of
//                                              x-opt-delivery-time a broker may make a delay of its own
//   CC, BCC                                    further routing keys: the message would fan out again
//   x-delay                                    the delayed-message exchange: ms to wait
#pragma once

#include <string_view>

#include "plugin/broker.h"
#include "src/core/broker_facts.h"

namespace rung::rabbit {

inline constexpr std::string_view kDelayHeader = "x-delay";

// All of them but x-delay, which is the application's until it reaches <prefix>.delay.
ReservedHeaders reserved_headers();

// Takes the reserved headers off `message`, which came in at `inlet`. Nothing for Inlet::results. x-delay
// stays in place: it counts only at Inlet::delay, and DelayFacts::header names it there. Elsewhere the
// delayed-message exchange left it behind, and it is the application's.
BrokerFacts take_broker_headers(Message& message, Inlet inlet);

}  // namespace rung::rabbit
