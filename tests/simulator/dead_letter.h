// How RabbitMQ marks a message that it dead-letters. Thread: a pure function.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/message/message.h"

namespace rung::sim {

// Records a death in x-death: the entry of {queue, reason} moves to the front, and its count grows.
// `time_s`: the time of the death, in seconds since 1970.
void add_death(Message& message, const std::string& reason, const std::string& queue,
               const std::string& exchange, const std::string& key, std::int64_t time_s);

}  // namespace rung::sim
