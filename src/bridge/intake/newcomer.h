// The task that an incoming message becomes: a failure starts at the ladder's first level, a delay waits for
// its time. Thread: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "plugin/broker.h"
#include "src/core/base/ids.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"

namespace rung::bridge {

inline constexpr std::size_t kShortString = 255;  // bytes, of name columns

// A message that carries the headers of one of our deliveries, and is not the message in that task's row, or
// the row is gone: a task of its own, which goes on where the other one stands.
struct Continuation {
  TaskId parent;
  int level = 1;  // that it waits for first
  std::optional<EpochMs> first_failed_at = {};
  std::string ladder = {};  // pinned; "" = its queue's
  int max_attempts = 0;     // that are left; 0 = no such limit
  std::string remark = {};  // to its error
};
// `failed`: the attempt whose headers it carries.
Continuation continue_after(const Task& parent, const Failure& failed);
Continuation continue_lost_row(const Failure& failed);

// When it arrived, and by which rules it is decided.
struct Arrival {
  const RuleBook& rules;
  EpochMs now;          // by DbClock::latest(): a lag of our clock reading never cuts a delay short
  double random = 0.0;  // [0, 1), for jitter
};

// Inserts sets id, shard and node. Parked at once if a header names a target that the rules don't allow, or
// if `park_reason` is not empty.
NewTask failed_task(const Delivery& delivery, const Failure& failure, const Arrival& arrival,
                    std::string park_reason = {}, const Continuation& continues = {});
NewTask delayed_task(const Delivery& delivery, const DelayRoutes& routes, const Arrival& arrival);

// Makes it the row of a message that the database cannot store: parked, without its body, which is in
// <prefix>.parked.
void leave_body_out(NewTask& fresh, const std::string& reason, const RuleBook& rules, EpochMs now);

}  // namespace rung::bridge
