// The state of an instance, as shown by /metrics, /readyz and the startup log. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/upkeep/retention.h"
#include "src/core/base/health.h"
#include "src/core/rules/people.h"

namespace rung::bridge {

// Of traces, since the start.
struct SpanCounts {
  std::int64_t exported = 0, dropped = 0;
};

struct Vitals : Totals {
  bool broker_consuming = false, broker_publishing = false;
  bool broker_blocked = false;  // by an alarm: it takes no messages
  bool database = false;
  bool draining = false;
  int shards = 0;  // held
  RetentionState retention;
  std::string config;  // fingerprint() of the config in effect
  std::vector<HealthProblem> problems;
  std::size_t unconfirmed = 0;  // published, no answer yet
  Targets::Summary targets;
  std::vector<std::pair<std::string, bool>>
      attached;  // by queue of the config; only those that could be checked
  // Queues that get nothing, and why: a state of the view retry_queues.
  std::vector<std::pair<std::string, std::string>> closed;
  std::size_t behind_gates = 0;  // tasks that are due and wait behind a gate, as far as they are in memory
  std::vector<std::string> error_queues;  // that are consumed, or rest
  SpanCounts spans = {};
  KeyCounts sign_in_keys = {};
  FlowCounts::ByQueue flow;
  std::size_t unacked = 0;  // deliveries in hand
  Ms intake_stalled{0};     // for how long none of them has been acked
  std::size_t ready = 0;    // due, and waiting to be claimed
  std::size_t loaded = 0;   // in the heap
};

// Whether the instance has worked since the start, and if not, which service refuses it and why. See
// start.wait.
struct StartState {
  bool done = false;    // broker and database have both answered and serve us
  std::string refusal;  // of a service that has never served us; "" = none: it has just not been reached yet
};

}  // namespace rung::bridge
