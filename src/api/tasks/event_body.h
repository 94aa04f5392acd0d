// What other systems get of an event (src/store/outgoing_events.h): JSON, with the task, cause or bulk as the
// API shows it. Thread: as the store's.
#pragma once

#include <optional>
#include <string>

#include "src/core/base/result.h"
#include "src/store/store.h"

namespace rung::api {

// {"id": "17", "type": "task_parked", "at": ..., "queue": "orders", "task" | "cause" | "bulk": {...}}; the
// object as it is now, null if it has been deleted. nullopt: not to be published. That is the parking of a
// task that is itself an event, from `exchange`: its consumer fails, and each of its failures would cause
// another event.
Result<std::optional<std::string>> event_body(Store& store, const OutgoingEvent& event,
                                              const std::string& exchange);

}  // namespace rung::api
