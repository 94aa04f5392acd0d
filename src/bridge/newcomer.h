// A message that has come in and has no row yet, and the task that it becomes: a failure begins on the
// ladder's first rung, a delay waits for its time. Thread: pure functions, the loop's.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "plugin/broker.h"
#include "src/core/headers.h"
#include "src/core/ids.h"
#include "src/core/machine.h"

namespace rung::bridge {

inline constexpr std::size_t kShortString = 255;  // bytes, of the columns for names

struct Newcomer {
  std::shared_ptr<Delivery> delivery;
  std::variant<Failure, DelayRequest> said;
  std::string park_reason;  // not empty: it is parked at once
  bool alone = false;
  bool without_body = false;  // its body lies in <prefix>.parked
  bool row_lost = false;      // a delivery of ours, by its token, whose row is gone: it climbs on
  BootUs arrived{};           // set by Intake

  // "" where it goes by an exchange, or nowhere.
  const std::string& queue() const;
};

// Parked at once where a header names a target that the rules don't allow.
Newcomer failed_newcomer(std::shared_ptr<Delivery> delivery, Failure failure, const RuleBook& rules,
                         std::string park_reason = {});
Newcomer delayed_newcomer(std::shared_ptr<Delivery> delivery, const DelayRoutes& routes,
                          const RuleBook& rules);

struct Maker {
  TaskId id;
  int shard = 0;
  int node = 0;
  const RuleBook& rules;
  EpochMs now;  // when it arrived, by DbClock::latest(): a delay is never cut short by what our reading of
                // the clock is behind
  double random = 0.0;  // [0, 1), for jitter
};
NewTask make_task(const Newcomer& newcomer, const Maker& maker);

}  // namespace rung::bridge
