// The life of a task. THE place where state changes: stores and flows ask decide() and write what it answers.
// docs/state-machine.md draws it. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "src/core/policy.h"
#include "src/core/task.h"

namespace rung {

// What can happen to a task.
namespace event {
struct Claim {};  // it is due, and we own its shard: a new attempt, or the same again if an old epoch left it
struct Confirmed {
  int attempt;
  EpochMs published_at;
};  // the broker has it, and the queue too
struct Returned {
  int attempt;
  EpochMs published_at;
  std::string reason;
};  // no such queue: counts as a failure
struct Deferred {
  int attempt;
  Ms pause;
  std::string reason;
};  // refused by the broker, not by the consumer: costs nothing. This and Returned: only from who claimed it
struct Failed {
  int attempt;
  std::string error, error_type;
  Directives directives;
  // Where the failed message says it comes from, "" where it doesn't: who copies headers into another message
  // must not fail somebody else's task.
  std::string queue = {}, message_id = {};
};  // attempt 0 = not said: the current one
struct Succeeded {
  int attempt;
};
struct SilenceOver {};     // next_at of an awaiting task has passed
struct ParkedCopySent {};  // rung.parked confirmed the copy
struct Cancel {
  std::string reason;
};                  // by a person
struct Redrive {};  // by a person: parked (or scheduled: at once) -> due now
struct Finish {
  bool succeeded;
  std::string error;
};  // by a person: succeeded, or failed (= next level)
}  // namespace event

using Happening = std::variant<event::Claim, event::Confirmed, event::Returned, event::Deferred,
                               event::Failed, event::Succeeded, event::SilenceOver, event::ParkedCopySent,
                               event::Cancel, event::Redrive, event::Finish>;

// "claim", "silence_over" ...: for people and failpoints.
std::string_view name_of(const Happening& what);

struct Event {
  TaskId id;
  Happening what;
};

// What the store knows when it asks, inside its transaction.
struct Circumstances {
  EpochMs now;          // the database's clock, at the start of the transaction
  double random = 0.0;  // [0, 1), for jitter
  int node = 0;         // who asks
  std::uint64_t epoch =
      0;  // of the lease on the task's shard, checked and locked in this transaction; 0 = not held
  int home_shard = -1;  // a shard that the asker holds, to which a task it reschedules moves; -1 = leave it
};

// The reason of a refusal where there is no row; a store says it, decide() is not asked.
inline constexpr std::string_view kNoSuchTask = "no such task";
// The reason of a refusal where a failed message carries another message's retry-id.
inline constexpr std::string_view kAnothersTask = "it belongs to another message";

struct Decision {
  enum class Verdict {
    applied,  // write `task`, and `attempt` where given
    stale,    // it happened already, or to an attempt that is over: nothing to write, nothing wrong
    refused,  // not from this state: tell who asked
  };
  Verdict verdict = Verdict::stale;
  std::string reason;  // for stale and refused
  Task task;           // as it is afterwards (unchanged unless applied)
  // The history row as it is afterwards. REQUIRES the store to upsert: level and due_at are written once, by
  // the claim; any other field that is nullopt, pending, "" or node 0 here leaves what stands there.
  std::optional<Attempt> attempt;
  bool drop_attempt = false;  // Deferred: the row of `attempt` is taken back
};

Decision decide(const Task& task, const Happening& what, const RuleBook& rules, const Circumstances& at);

// The first step of a new task: level 1 scheduled, or parked at once (retry-never, no queue, no attempts).
// Sets state, level, levels, ladder, next_at, finished_at; leaves the rest of `task` as it is.
void begin(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, double random);

// Parks a task that never begins, e.g. because nothing says where it came from.
void begin_parked(Task& task, const std::string& reason, const RuleBook& rules, EpochMs now);

}  // namespace rung
