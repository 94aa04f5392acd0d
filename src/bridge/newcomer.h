// An incoming message that has no row yet, and the task that it becomes: a failure starts at the ladder's
// first level, a delay waits for its time. Thread: pure functions, the loop's.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "plugin/broker.h"
#include "src/core/headers.h"
#include "src/core/ids.h"
#include "src/core/machine.h"

namespace rung::bridge {

inline constexpr std::size_t kShortString = 255;  // bytes, of name columns

struct Newcomer {
  std::shared_ptr<Delivery> delivery;
  std::variant<Failure, DelayRequest> said;
  std::string park_reason;  // not empty: park it at once
  bool alone = false;
  bool without_body = false;  // its body is in <prefix>.parked
  bool row_lost = false;      // our delivery, by its token, but its row is gone: it continues on the ladder
  BootUs arrived{};           // set by Intake

  // "" if it goes to an exchange, or nowhere.
  const std::string& queue() const;
};

// Parked at once if a header names a target that the rules don't allow.
Newcomer failed_newcomer(std::shared_ptr<Delivery> delivery, Failure failure, const RuleBook& rules,
                         std::string park_reason = {});
Newcomer delayed_newcomer(std::shared_ptr<Delivery> delivery, const DelayRoutes& routes,
                          const RuleBook& rules);

struct Maker {
  TaskId id;
  int shard = 0;
  int node = 0;
  const RuleBook& rules;
  EpochMs now;          // arrival time, by DbClock::latest(): a lag of our clock reading never cuts a delay
                        // short
  double random = 0.0;  // [0, 1), for jitter
};
NewTask make_task(const Newcomer& newcomer, const Maker& maker);

}  // namespace rung::bridge
