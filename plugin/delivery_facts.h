// What every plugin does with a delivery before it passes it on. Thread: a pure function.
#pragma once

#include <utility>

#include "plugin/broker.h"
#include "src/core/rules/dialect.h"

namespace rung {

// Fills `facts`. `take_record` (Delivery&) moves the broker's own record of the failure, if there is one,
// from the message to `facts`. A dialect is read before that: it may name such a header.
template <typename TakeRecord>
void take_facts(Delivery& delivery, const ErrorQueues& error_queues, TakeRecord&& take_record) {
  const ErrorQueue* entry = delivery.inlet == Inlet::error ? error_queues.find(delivery.source) : nullptr;
  if (entry == nullptr) return take_record(delivery);
  DialectFacts read =
      read_dialect(*entry->dialect, delivery.message, {delivery.source, delivery.routing_key});
  take_record(delivery);
  take_failure(*entry, std::move(read), delivery.message, delivery.facts);
}

}  // namespace rung
