// Gates of queues: when the tasks of a queue may go out. Pauses by hand, and what instances share about the
// gates in the config. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/gates/gates.h"
#include "src/core/machine/by_hand.h"
#include "src/store/system.h"

namespace rung {

struct NewPause {
  std::string queue;             // REQUIRES: not empty
  std::optional<EpochMs> until;  // none: until it is resumed
  std::string who, reason;
};

// What resume() ended; none: it was not in force. A retry-after that held back the whole queue is shown as a
// pause by "retry-after".
struct Resumed {
  std::optional<Pause> pause, retry_after;
  bool any() const { return pause || retry_after; }
};

// Changes a state inside a transaction; returns the events to record. May be called again if the transaction
// is repeated.
using GateChange = std::function<std::vector<SystemEvent>(GateState&, EpochMs now)>;

// A change of several queues, in one transaction.
struct GateBatch {
  std::vector<std::string> queues;  // each once, at most kMost
  GateChange change;                // called for each of them
  // Who made it, and which of its batches it is: the latest of each maker is kept, so that repeating it after
  // a lost answer changes nothing. "" = may be applied twice.
  std::string maker = {}, id = {};
  static constexpr std::size_t kMost = 500;
};

// A row of the view retry_queues.
struct QueueGate {
  std::string queue;
  // flowing, paused, outside_window, breaker_open, breaker_half_open, rate_limited
  std::string state;
  std::optional<EpochMs> since, until;
  std::string reason, by;
  std::int64_t waiting = 0;             // scheduled tasks
  std::optional<EpochMs> next_at = {};  // the earliest due time among them
  // Not of the view: api::read_queues() has them.
  std::int64_t parked = 0;
  std::optional<bool> attached = {};  // none: it has never been seen attached
  // Messages that wait in it, if it has no consumer, and deliveries to it await an answer.
  std::int64_t unread = 0;
};

inline constexpr Ms kPausesKept = std::chrono::hours{24 * 30};
// States that are as by default.
inline constexpr Ms kGatesKept = std::chrono::hours{24};

// What a store does for pause(): the pause that results from `request`, given the queue's latest one; none if
// nothing changes. And for resume(); none if there is no pause in force. REQUIRES: `now` is the database's
// time, and `before->over` was read then.
std::optional<Pause> paused(const std::optional<Pause>& before, const NewPause& request, EpochMs now);
std::optional<Pause> resumed(const std::optional<Pause>& before, const std::string& who, EpochMs now);
// The retry-after in force, as a pause; none: there is none.
std::optional<Pause> hold_in_force(const GateState& state, EpochMs now);
// What the view retry_queues shows of a queue with its latest pause and its state, without waiting and
// next_at; nullptr: it has none. None: it flows.
std::optional<QueueGate> shown_gate(const Pause* pause, const GateState* state, EpochMs now);
// What pause() and resume() write beside it. `after.over`: it was resumed. `reason`: of this change.
AuditRow audit_of(const std::optional<Pause>& before, const Pause& after, const std::string& reason,
                  EpochMs now);
SystemEvent event_of(const Pause& after, const std::string& reason);

}  // namespace rung
