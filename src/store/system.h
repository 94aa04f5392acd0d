// The system itself, not tasks: schema, server, events, shared settings. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/server_risks.h"

namespace rung {

// Something that happened to the system itself, not to a task: rung_events, the view retry_events.
struct SystemEvent {
  std::int64_t id = 0;  // given by the store
  EpochMs at;           // given by the store
  std::string node;     // its name; given by the store
  std::string kind;     // a constant word: "topology_repaired", "clock_step" ...
  std::string subject;  // what it happened to: a queue, an exchange, a node; may be ""
  std::string detail;   // for people
};

}  // namespace rung
