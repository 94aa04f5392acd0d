// The state machine of a task. The ONLY place where state changes: stores and flows call decide() and write
// its result. docs/state-machine.md draws it. Thread: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "src/core/rules/people.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// The message at hand when a failure names a task: is it the task's own?
struct ReceivedMessage {
  std::string digest;  // message_digest()
  MessagePtr message;  // as it is published again
  // With which it reached its queue, by the broker's record. "" = not known, or Rung's own.
  std::string exchange, routing_key;
};

// The message of a parked task as a person has edited it, for the task that replaces that one.
struct EditedMessage {
  TaskId id;                  // of the new task
  MessagePtr message;         // stripped
  std::string origin_json;    // edit_origin()
  std::string before, after;  // JSON objects of what differs, for the audit
};

// What can happen to a task.
namespace event {
// The task is due within `ahead`, and we own its shard: starts a new attempt, or repeats one of ours, or with
// `again` the attempt that an older epoch left. After a claim ahead of time the claimer waits with the
// publish until the task is due.
struct Claim {
  Ms ahead{0};
  Ms gated{0};         // how long the task has waited behind a closed gate since it was due
  int probe = 0;       // the number of the breaker's probe that it is; 0 = it is none
  bool again = false;  // who claimed it before cannot publish it any more
};
struct Confirmed {
  int attempt;
  EpochMs published_at;
  // Of the claim whose copy this is: a newer claim waits for its own confirm. 0 = not known.
  std::uint64_t epoch = 0;
};  // the broker accepted it, and the queue has it
struct Returned {
  int attempt;
  EpochMs published_at;
  std::string reason;
};  // no such queue: counts as a failure
struct Deferred {
  int attempt;
  Ms pause;
  std::string reason;
  // An earlier publish of this attempt is unanswered (Decision::claimed_again): a consumer may have a
  // copy, so the attempt number stays used.
  bool copy_may_be_out = false;
};  // refused by the broker, not by the consumer: costs nothing. This and Returned: only from the claimer
struct Failed {
  int attempt = 0;
  std::string error, error_type;
  Directives directives;
  // The queue and message-id that the failed message names, "" = none: a client that copies headers into
  // another message must not fail somebody else's task.
  std::string queue = {}, message_id = {};
  std::string executor = {};  // retry-executor
  bool proven = false;        // it carries the delivery's retry-token
  // Reported by the instance that claimed it, not by a consumer: the publish failed, and no copy of it
  // exists.
  bool by_publisher = false;
  std::optional<int> level = {};  // of the attempt, from its delivery; none = not given
  // The queue was full and evicted or refused the message: no consumer failed it. `publish`: the copy's
  // number by its token; 0 = not known. A parked copy's (kParkedCopy): a new failure, whatever `attempt`
  // says.
  bool unseen = false;
  std::uint32_t publish = 0;
  std::shared_ptr<const ReceivedMessage> received = {};  // nullptr: a result, which has no message
};                                                       // attempt 0 = not given: the current one
struct Succeeded {
  int attempt;
  std::string executor = {};
  bool proven = false;  // as in Failed
  std::uint32_t publish = 0;
};
// next_at of an awaiting task has passed.
struct SilenceOver {
  // Why silence is no success: a failure of this delivery could not have arrived, or may have been dropped
  // (its queue was not attached). The task then stays awaiting without an end, until it is answered or a
  // person decides. "" = a failure would have arrived. Without effect where silence means failure.
  std::string held = {};
  // It ends later, and why, for its history; "" = nobody can tell. Without effect where silence means
  // failure.
  std::optional<EpochMs> ends_at = {};
  std::string why = {};
};
struct ParkedCopySent {
  bool no_queue = false;  // took it: it is owed still, and tried again later and later
};                        // rung.parked, or its error queue, confirmed the copy
struct Cancel {};         // by a person
struct Redrive {
  Target elsewhere = {};
  bool even_reported = false;  // also a success that a consumer or a person has reported
  bool even_replaced = false;  // also a task that an edited copy has replaced; it then is no longer replaced
  // Of a bulk: when its tasks were chosen. A success since then is no presumed success of that time.
  std::optional<EpochMs> chosen_at = {};
};  // by a person: parked, a presumed success or a held silence (or scheduled: at once) -> due now, to the
    // same target or `elsewhere`
struct Finish {
  bool succeeded;
  std::string error;
  std::string executor = {};
  int attempt = 0;  // which one failed: a repeat fails no later one. 0 = not given: the current one
  bool even_reported = false;  // failed: as for Redrive
  // Of a bulk, whose tasks were chosen a while ago: an attempt under way only while its silence is held open,
  // and nothing that has failed since.
  bool held_only = false;
};  // by a person: succeeded, or failed (= next level; also after a presumed success)
struct Reschedule {
  std::optional<EpochMs> at;  // else `delay` from now
  Ms delay{0};
};                  // by a person, on a scheduled task: the same attempt, at another time
struct Fire {};     // by a person, on a scheduled task: now
struct Discard {};  // by a person: parked or scheduled -> discarded
struct Park {};     // by a person, on a scheduled task: a redrive that has not been sent yet is taken back
struct Edit {
  std::shared_ptr<const EditedMessage> edited;
};  // by a person: a parked task is discarded, and Decision::child is sent in its place
}  // namespace event

using Happening =
    std::variant<event::Claim, event::Confirmed, event::Returned, event::Deferred, event::Failed,
                 event::Succeeded, event::SilenceOver, event::ParkedCopySent, event::Cancel, event::Redrive,
                 event::Finish, event::Reschedule, event::Fire, event::Discard, event::Park, event::Edit>;

// "claim", "silence_over" ...: for people and failpoints.
std::string_view name_of(const Happening& what);

// A person's change of a task, recorded in an audit row.
struct ByHand {
  std::string who;                          // "alice@host (cli)", "alice, 10.0.0.3 (http)"
  std::optional<std::uint32_t> if_version;  // only if the task still has this version
  std::string reason = {};                  // as the person gave it; "" = none
  std::int64_t bulk = 0;                    // the bulk that it is part of; 0 = none
  QueueScopePtr queues = {};                // only a task of these queues
};

struct Event {
  TaskId id;
  Happening what;
  std::optional<ByHand> by_hand = {};
  // The task as we last wrote it, if known: a store may decide on it without reading the row, and then writes
  // only if the row's version is still the same.
  std::shared_ptr<const Task> expected = {};
};

// What the store knows when it calls decide(), inside its transaction.
struct Circumstances {
  EpochMs now;          // the database's clock, at the start of the transaction
  double random = 0.0;  // [0, 1), for jitter
  int node = 0;         // the instance that asks
  std::uint64_t epoch =
      0;  // of the lease on the task's shard, checked and locked in this transaction; 0 = not held
  int home_shard = -1;  // a shard of the asking instance, to which a rescheduled task moves; -1 = leave it
  // For a task in `publishing`: the lease under which it was claimed is still valid, so the claimer may still
  // publish a copy, and will report the result.
  bool claim_stands = false;
};

// Reason of a refusal: there is no row. A store gives it without calling decide().
inline constexpr std::string_view kNoSuchTask = "no such task";
// Reason why a claim is stale: this instance does not hold the lease of the task's shard.
inline constexpr std::string_view kNotOurShard = "its shard is not ours";
// Reason of a refusal: the row has an ENUM word that only newer versions know.
inline constexpr std::string_view kUnknownState =
    "a newer version of Rung has written its row: ask that version";
// Reason of a refusal: a failed message carries another message's retry-id.
inline constexpr std::string_view kAnothersTask = "it belongs to another message";
// Reason of a refusal: the failed message is not the one in the row, although it carries its headers.
inline constexpr std::string_view kAnotherMessage = "the row has another message";
// Reason of a refusal: what failed is a copy of a parked message, and the task is not parked any more.
inline constexpr std::string_view kGoneOn = "its task has gone on since this copy of it was parked";
// Reason of an audit row: the same, and the task was parked still.
inline constexpr std::string_view kCameBack = "came back from the parked queue";
// Reason of a refusal: ByHand::if_version is not the task's version.
inline constexpr std::string_view kChangedMeanwhile = "it has changed since you saw it";
// Reason of a refusal: the task's queue is not one of ByHand::queues.
inline constexpr std::string_view kNotTheirQueue = "its queue is not one that you may act on";
// Reasons of a refusal by a store, of an Edit: the new task's id is taken, another one will do; the database
// does not take a body of this size.
inline constexpr std::string_view kIdTaken = "another task has the id of the new one";
inline constexpr std::string_view kBodyTooLarge =
    "the body is too large for the database (max_allowed_packet)";
// Reason of a refusal to end an attempt whose copy has not been published, or may not have been. Otherwise
// the task would become `scheduled`, a cancel would succeed, and the copy would go out after it. A consumer's
// result is retried until the publish is answered; a person gets the reason.
inline constexpr std::string_view kBeingPublished =
    "it is being published, and the broker has not confirmed it yet: try again in a moment";
// Why a failure is stale: it describes a publish that the queue refused, or a copy that another has replaced.
// Nobody saw it, and the task is, or will be, published again.
inline constexpr std::string_view kRefusedPublish =
    "its queue was full and refused this publish: no consumer has seen it";

struct Decision {
  enum class Verdict {
    applied,  // write `task`, and `attempt` if set
    stale,    // a repeat, or for an attempt that has ended: nothing to write, no error
    refused,  // not allowed in this state: report it to the caller
  };
  Verdict verdict = Verdict::stale;
  std::string reason;  // for stale and refused; for applied if the row was behind: how far
  Task task;           // after the event (unchanged unless applied)
  // The history row after the event. REQUIRES the store to upsert: level and due_at are written once, by the
  // claim; any other field that is nullopt, pending, "" or node 0 here leaves the column unchanged.
  std::optional<Attempt> attempt;
  bool drop_attempt = false;  // Deferred: delete the row of `attempt`
  // If the row was behind: its current attempt, which must have ended.
  std::optional<Attempt> overtaken = {};
  // Claim: the attempt was claimed before, and it is unknown whether it was published then.
  bool claimed_again = false;
  // Claim: `task` is with_short_claim() of the row. A store may leave the row as it is.
  bool short_claim = false;
  // A failure: the queue that had the message, if a rule has moved the task to another one.
  std::string failed_in = {};
  // A failure that is proven: its consumer's retry-after holds back the whole queue for so long.
  std::optional<Ms> holds_queue = {};
  // A failure: the message came with other headers or properties, which the task has from now on. The store
  // keeps the earlier ones in the row's origin.
  std::shared_ptr<const ReceivedMessage> replacement = {};
  // The task was in `awaiting`: since when, the end of silence less its length.
  std::optional<EpochMs> awaited_since = {};
  State was = State::unknown;  // the task's state before the event; decide() sets it
  // An Edit: the new task. The store inserts it in the same transaction; if it can't, it refuses the event.
  std::shared_ptr<const NewTask> child = {};
};

Decision decide(const Task& task, const Happening& what, const RuleBook& rules, const Circumstances& at);

// A short claim: of many tasks that are claimed at once, only the attempts are written, because the confirm
// changes the tasks' rows again some ms later. Such a row says `scheduled`; an attempt above its own,
// pending, with its due time and an epoch, says that it is claimed. A store that has locked a row reads it in
// this way.
Task with_short_claim(Task row, std::uint64_t epoch, int node);
inline bool is_short_claim(const Task& row, const Attempt& next) {
  return row.state == State::scheduled && next.attempt == row.attempt + 1 &&
         next.outcome == Outcome::pending && next.epoch != 0 && next.due_at == row.next_at;
}

// The refusal of a person's change because of ByHand::queues or if_version; none if neither objects. Stores
// ask this before they call decide(), with the row locked.
std::optional<Decision> refuse_by_hand(const Event& event, const Task& task);

// Its silence has ended, but was no success (SilenceOver::held): it waits for an answer or a person.
inline bool is_silence_held(const Task& task) { return task.state == State::awaiting && !task.next_at; }

// What silence after its delivery means; before the confirm, what it will mean by these rules.
const Silence& silence_of(const Task& task, const RuleBook& rules);

// The first step of a new task: level 1 scheduled, or parked at once (retry-never, no queue, no attempts).
// Sets state, level, levels, ladder, next_at, finished_at; leaves the rest of `task` unchanged. `level`:
// higher for a message from one of our deliveries whose row is gone.
void begin(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, double random,
           int level = 1);

// The first step of a delay: scheduled at `due`, level 0. A missing target, ladder or silence is taken from
// its tag. Parked at once if neither has a target, or if `park_reason` is set: a person then sends it to its
// target.
void begin_delay(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, EpochMs due,
                 const std::string& park_reason = {});

// Parks a new task at once, e.g. because its queue is unknown.
void begin_parked(Task& task, const std::string& reason, const RuleBook& rules, EpochMs now);

// decide() as a store calls it: with the rule book bound to it; called inside the transaction, once per
// event.
using Decider = std::function<Decision(const Task&, const Happening&, const Circumstances&)>;

inline Decider decider(RuleBookPtr rules) {
  return [rules = std::move(rules)](const Task& task, const Happening& what, const Circumstances& at) {
    return decide(task, what, *rules, at);
  };
}

// --- what a failure leads to (climb.cc): the next level of the ladder, or what a rule, give_up or the
// consumer says instead. Only machine.cc calls after_failure().

// The task's ladder: the one pinned to it, else its queue's. Sets Task::ladder if it was another.
const levels::Ladder& ladder_of(Task& task, const RuleBook& rules);

// Appends a short remark to an error text; the text is cut if there is no room for both.
std::string with_remark(const std::string& error, std::string remark);

// Takes retry-ladder and retry-max-attempts; a complaint becomes a remark to the error.
void take_directives(Task& task, const Directives& d, const RuleBook& rules);

// Finished, by nobody.
void end_task(Task& task, State as, const RuleBook& rules, EpochMs now);

// Due now, on the first rung of its ladder. Limits count nothing that was before.
void begin_again(Task& task, const RuleBook& rules, EpochMs now);

// Sets the task's new target. If it goes to a queue, exchange and routing key are kept: they tell people
// where it was first published.
void direct(Task& task, const Target& wanted);

// The failed task as its queue's rules see it. The views are valid as long as the task.
FailureCase failure_case(const Task& task, EpochMs now);

// The task has failed; last_error and error_type say how. Decides, in this order: the consumer's retry-never,
// the first matching rule of its queue, give_up, its ladder. Sets all that changes. `level`: the next one of
// the ladder.
void after_failure(Task& task, int level, const Directives& d, const RuleBook& rules, EpochMs now,
                   double random);

// For how long the consumer's retry-after holds back the task's queue; none = it does not. REQUIRES: the
// failure is proven to be that of a delivery of ours.
std::optional<Ms> queue_hold(const Task& task, const Directives& d, const RuleBook& rules);
// "task 4711 asked for 5m": the reason that people see.
std::string describe_hold(TaskId task, Ms wait);

}  // namespace rung
