// How Rung's own queues and the error queues share the prefetch and the memory for unacked messages, so that
// a backlog in error queues neither fills the memory nor stands before fresh dead letters. Thread: pure
// functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plugin/broker_options.h"

namespace rung::rabbit {

// Unacked messages of one consumer, as basic.qos takes it.
inline std::uint16_t as_prefetch_count(int messages) {
  return static_cast<std::uint16_t>(std::clamp(messages, 1, 65535));
}

// A tenth for each error queue. With `parked: return` all: the copies in the queue are held until something
// else comes, and behind more copies than this nothing is found.
inline int error_prefetch(const BrokerOptions& options, const ErrorQueue* entry) {
  return entry != nullptr && entry->returns ? options.prefetch : std::max(options.prefetch / 10, 1);
}

// Bytes of unacked messages: a quarter for all error queues together, if there are any.
inline std::size_t error_intake_bytes(const BrokerOptions& options) {
  return options.error_queues->empty() ? 0 : options.max_intake_bytes / 4;
}
inline std::size_t own_intake_bytes(const BrokerOptions& options) {
  return options.max_intake_bytes - error_intake_bytes(options);
}

}  // namespace rung::rabbit
