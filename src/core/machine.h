// The life of a task. THE place where state changes: stores and flows ask decide() and write what it answers.
// docs/state-machine.md draws it. Thread: pure functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "src/core/policy.h"
#include "src/core/task.h"

namespace rung {

// What can happen to a task.
namespace event {
// It is due within `ahead`, and we own its shard: a new attempt, or the same again if an old epoch left it.
// Whoever claims ahead holds the message back until it is due.
struct Claim {
  Ms ahead{0};
};
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
  // An earlier publish of this attempt has had no answer (Decision::claimed_again): a copy of it may be with
  // a consumer, so its number is not taken back.
  bool copy_may_be_out = false;
};  // refused by the broker, not by the consumer: costs nothing. This and Returned: only from who claimed it
struct Failed {
  int attempt;
  std::string error, error_type;
  Directives directives;
  // Where the failed message says it comes from, "" where it doesn't: who copies headers into another message
  // must not fail somebody else's task.
  std::string queue = {}, message_id = {};
  std::string executor = {};
  bool proven = false;  // it showed the delivery's retry-token
  // Said by the instance that claimed it, not by a consumer: it could not be sent, and no copy of it is left.
  bool by_publisher = false;
  std::optional<int> level = {};  // of the attempt, as its delivery said; none = not said
  bool asked_again = false;       // kRowBehind was answered, and a pause has passed since
};                                // attempt 0 = not said: the current one
struct Succeeded {
  int attempt;
  std::string executor = {};
  bool proven = false;       // as in Failed
  bool asked_again = false;  // as in Failed
};
struct SilenceOver {};     // next_at of an awaiting task has passed
struct ParkedCopySent {};  // rung.parked confirmed the copy
struct Cancel {
  std::string reason;
};  // by a person
struct Redrive {
  Target elsewhere = {};
};  // by a person: parked (or scheduled: at once) -> due now, where it was or elsewhere
struct Finish {
  bool succeeded;
  std::string error;
  std::string executor = {};
  int attempt = 0;  // which one failed: said again it fails no later one. 0 = not said: the current one
};                  // by a person: succeeded, or failed (= next level)
struct Reschedule {
  std::optional<EpochMs> at;  // else `delay` from now
  Ms delay{0};
};               // by a person, of what is scheduled: the same attempt, at another time
struct Fire {};  // by a person, of what is scheduled: now
struct Discard {
  std::string reason;
};  // by a person: parked or scheduled -> discarded
}  // namespace event

using Happening =
    std::variant<event::Claim, event::Confirmed, event::Returned, event::Deferred, event::Failed,
                 event::Succeeded, event::SilenceOver, event::ParkedCopySent, event::Cancel, event::Redrive,
                 event::Finish, event::Reschedule, event::Fire, event::Discard>;

// "claim", "silence_over" ...: for people and failpoints.
std::string_view name_of(const Happening& what);

// Who changes a task by hand: a row in the audit says it.
struct ByHand {
  std::string who;                          // "alice@host (cli)", "token full, 10.0.0.3 (http)"
  std::optional<std::uint32_t> if_version;  // only if the task still is as it was seen
};

struct Event {
  TaskId id;
  Happening what;
  std::optional<ByHand> by_hand = {};
  // The task as it stood when we wrote it last, where we know that: a store may decide on it instead of
  // reading the row, and writes only where the row's version is still the same.
  std::shared_ptr<const Task> expected = {};
};

// What the store knows when it asks, inside its transaction.
struct Circumstances {
  EpochMs now;          // the database's clock, at the start of the transaction
  double random = 0.0;  // [0, 1), for jitter
  int node = 0;         // who asks
  std::uint64_t epoch =
      0;  // of the lease on the task's shard, checked and locked in this transaction; 0 = not held
  int home_shard = -1;  // a shard that the asker holds, to which a task it reschedules moves; -1 = leave it
  // Of a task in `publishing`: the lease under which it was claimed is valid now, so that the instance that
  // claimed it may still publish a copy, and will say what became of it.
  bool claim_stands = false;
};

// The reason of a refusal where there is no row; a store says it, decide() is not asked.
inline constexpr std::string_view kNoSuchTask = "no such task";
// The reason of a refusal where the row has a word that this program does not know: its newer instances do.
inline constexpr std::string_view kUnknownState =
    "a newer version of Rung has written its row: ask that version";
// The reason of a refusal where a failed message carries another message's retry-id.
inline constexpr std::string_view kAnothersTask = "it belongs to another message";
// The reason of a refusal where ByHand::if_version is not the task's.
inline constexpr std::string_view kChangedMeanwhile = "it has changed since you saw it";
// The reasons of a refusal to end an attempt whose copy has not left, or may not have left. To accept it
// would make the task `scheduled`, a cancel would be answered, and the copy would go out after it. A
// consumer's word is asked again until the publish has its answer; a person is told.
inline constexpr std::string_view kNotPublishedYet =
    "it is about to be published, and nothing has been delivered yet: try again when it has been";
inline constexpr std::string_view kBeingPublished =
    "it is being published, and the broker has not confirmed it yet: try again in a moment";
// The reason of a refusal where the word is of a delivery that the row knows nothing of: the row was read
// where the last commits are not, or a database without them was made the primary. Asked again after a pause,
// with `asked_again`; where the row is still behind then, it counts as that attempt.
inline constexpr std::string_view kRowBehind = "the row is older than the delivery";

struct Decision {
  enum class Verdict {
    applied,  // write `task`, and `attempt` where given
    stale,    // it happened already, or to an attempt that is over: nothing to write, nothing wrong
    refused,  // not from this state: tell who asked
  };
  Verdict verdict = Verdict::stale;
  std::string reason;  // for stale and refused; for applied where the row was behind: how far
  Task task;           // as it is afterwards (unchanged unless applied)
  // The history row as it is afterwards. REQUIRES the store to upsert: level and due_at are written once, by
  // the claim; any other field that is nullopt, pending, "" or node 0 here leaves what stands there.
  std::optional<Attempt> attempt;
  bool drop_attempt = false;  // Deferred: the row of `attempt` is taken back
  // The row was behind: the attempt that it took for the current one, which must have ended.
  std::optional<Attempt> overtaken = {};
  // Claim: the attempt was claimed before, and nobody knows whether it was published then.
  bool claimed_again = false;
};

Decision decide(const Task& task, const Happening& what, const RuleBook& rules, const Circumstances& at);

// Whoever changes it by hand saw it as it no longer is. Stores ask before they ask decide().
inline bool changed_meanwhile(const Event& event, const Task& task) {
  return event.by_hand && event.by_hand->if_version && *event.by_hand->if_version != task.version;
}
Decision refuse_changed(const Task& task);

// What silence after an attempt of it means.
const Silence& silence_of(const Task& task, const RuleBook& rules);

// The first step of a new task: level 1 scheduled, or parked at once (retry-never, no queue, no attempts).
// Sets state, level, levels, ladder, next_at, finished_at; leaves the rest of `task` as it is. `level`: where
// it begins higher, because it comes from a delivery of ours whose row is gone.
void begin(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, double random,
           int level = 1);

// The first step of a task that only has to wait: scheduled at `due`, level 0. Where it has no target, its
// tag's; the same for its ladder and its silence. Parked at once where neither says a target, and for a
// `park_reason`: a person then sends it where it was to go.
void begin_delay(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, EpochMs due,
                 const std::string& park_reason = {});

// Parks a task that never begins, e.g. because nothing says where it came from.
void begin_parked(Task& task, const std::string& reason, const RuleBook& rules, EpochMs now);

}  // namespace rung
