// Gates of queues: when the tasks of a queue may go out. So far, pauses by hand. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/core/audit.h"
#include "src/core/result.h"
#include "src/core/time.h"
#include "src/store/system.h"

namespace rung {

struct NewPause {
  std::string queue;             // REQUIRES: not empty
  std::optional<EpochMs> until;  // none: until it is resumed
  std::string who, reason;
};

// The latest pause of a queue.
struct Pause {
  std::string queue;
  EpochMs since;
  std::optional<EpochMs> until;  // once resumed: when
  std::string who, reason;
  std::string resumed_by;  // "" = not resumed by hand
  bool over = false;       // by the database's clock, when it was read

  bool operator==(const Pause&) const = default;
};

// A row of the view retry_queues.
struct QueueGate {
  std::string queue;
  std::string state;  // "flowing" or "paused"; more states will be added
  std::optional<EpochMs> since, until;
  std::string reason, by;
  std::int64_t waiting = 0;        // scheduled tasks
  std::optional<EpochMs> next_at;  // the earliest due time among them
};

class GateStore {
 public:
  virtual ~GateStore() = default;

  // Pauses a queue, or changes the pause in force, which keeps its `since`. With a row in the audit and an
  // event, unless the pause in force is the same already.
  virtual Result<Pause> pause(const NewPause& request) = 0;
  // Ends the pause in force, with a row in the audit and an event. None: there is none in force.
  virtual Result<std::optional<Pause>> resume(const std::string& queue, const std::string& who) = 0;
  // Those in force, and for each queue without one its last, unless that ended more than kPausesKept ago.
  virtual Result<std::vector<Pause>> pauses() = 0;
  virtual Result<std::vector<QueueGate>> queue_gates() = 0;  // by queue
};

inline constexpr Ms kPausesKept = std::chrono::hours{24 * 30};

// What a store does for pause(): the pause that results from `request`, given the queue's latest one; none if
// nothing changes. And for resume(); none if there is no pause in force. REQUIRES: `now` is the database's
// time, and `before->over` was read then.
std::optional<Pause> paused(const std::optional<Pause>& before, const NewPause& request, EpochMs now);
std::optional<Pause> resumed(const std::optional<Pause>& before, const std::string& who, EpochMs now);
// What they write beside it. `after.over`: it was resumed.
AuditRow audit_of(const std::optional<Pause>& before, const Pause& after, EpochMs now);
SystemEvent event_of(const Pause& after);

}  // namespace rung
