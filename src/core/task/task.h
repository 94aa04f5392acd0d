// A task: one message on its way up a ladder, and an attempt: one delivery of it.
// Thread: values, free of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/ids.h"
#include "src/core/base/time.h"
#include "src/core/base/words.h"
#include "src/core/message/header_values.h"
#include "src/core/message/message.h"

namespace rung {

// Persisted as the words below (ENUM columns). NOTE: do not change or reorder; append only.
enum class State : std::uint8_t {
  unknown = 0,  // the row has a word from a newer version of Rung; decide() refuses everything
  scheduled = 1,
  publishing,
  awaiting,
  succeeded,
  parked,
  cancelled,
  discarded
};
enum class Kind : std::uint8_t { retry = 1, delay };
enum class Outcome : std::uint8_t { pending = 1, succeeded, failed, timed_out, returned };
enum class FinishedBy : std::uint8_t { nobody = 0, reported, presumed };  // nobody has no word

template <>
inline constexpr std::array<std::string_view, 7> kWords<State>{
    "scheduled", "publishing", "awaiting", "succeeded", "parked", "cancelled", "discarded"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Kind>{"retry", "delay"};
template <>
inline constexpr std::array<std::string_view, 5> kWords<Outcome>{"pending", "succeeded", "failed",
                                                                 "timed_out", "returned"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<FinishedBy>{"reported", "presumed"};

constexpr std::string_view to_word(State s) {
  return s == State::unknown ? "unknown" : to_word<State>(s);  // for people; no row has it
}

inline bool is_finished(State s) { return s >= State::succeeded; }

inline constexpr int kShards = 64;

// What silence after a delivery means.
struct Silence {
  enum class Means { success, failure };
  Means means = Means::success;
  Ms after{std::chrono::minutes{10}};
  bool operator==(const Silence&) const = default;
};

// Where a message is published to. To a queue: through the default exchange, so that no other binding gets a
// copy.
struct Target {
  std::string queue;                  // "" = use exchange and routing_key
  std::string exchange, routing_key;  // exchange "" = the default one: the routing key is a queue's name
  bool is_set() const { return !queue.empty() || !exchange.empty() || !routing_key.empty(); }
  bool operator==(const Target&) const = default;
};
// Turns a routing key at the default exchange into that queue, so that the queue's rules apply.
Target normalised(Target target);

// The mutable columns of a row of rung_tasks.
struct Task {
  TaskId id;
  int shard = 0;  // 0 .. kShards-1
  State state = State::scheduled;
  Kind kind = Kind::retry;
  // When the row needs the next action. scheduled, publishing: the due time of the next or current attempt.
  // awaiting: when silence counts as an answer. parked: set until the copy for rung.parked is published.
  std::optional<EpochMs> next_at;
  int attempt = 0;       // deliveries claimed so far; in publishing and awaiting the one under way, from 1
  int level = 1;         // the rung whose delay is waited for, or whose attempt is under way; from 1.
                         // 0: a delay without a failure before
  int levels = 0;        // rungs of its ladder when the level was last set
  int max_attempts = 0;  // retry-max-attempts; 0 = the ladder's length alone decides
  // What limits (retry-max-attempts, give_up, attempts_above, age_above) do not count: attempts that a rule
  // snoozed or that were a breaker's failed probes, time behind a closed gate, and everything before a
  // redrive.
  int uncounted_attempts = 0;  // of `attempt`
  Ms uncounted_time{0};        // since first_failed_at
  std::string ladder;
  bool ladder_pinned = false;  // named by header retry-ladder: stays even if the queue's ladder changes
  // The lease's epoch at the last claim. 0 in `publishing`: the broker refused the message, but a consumer
  // may have a copy from an earlier publish of the attempt. The task is claimed again at next_at.
  std::uint64_t epoch = 0;
  int node = 0;  // rung_nodes.id of the instance that acted last; 0 = none

  // The queue it returns or goes to. "": parked because it is unknown, or by_exchange and no failure has
  // named the queue yet.
  std::string queue;
  std::string exchange, routing_key;  // where it was first published, as far as is known
  std::string tag;                    // property `type`
  std::string message_id;             // property `message_id`; "" = none
  EpochMs first_failed_at;            // 0 = it has not failed
  EpochMs created_at;
  std::optional<EpochMs> finished_at;  // parked counts as finished: only a person moves it
  FinishedBy finished_by = FinishedBy::nobody;
  std::string last_error;  // UTF-8, at most kErrorBytes
  std::string error_type;  // retry-error-type, or found in the error text by a rule
  std::string rule;  // that decided at the last failure: "payments[2]", "give_up"; "" = none, the ladder
  // Of the headers that rules and gates name, those that the message had at the intake.
  std::map<std::string, std::string, std::less<>> rule_headers;
  std::string moved_from;   // its queue before the last change of `queue`; "" = it has not changed
  std::string error_queue;  // that it was taken from; "" = it was not. Never changes
  int probe =
      0;  // its last attempt was let through an open breaker, as the probe of this number; 0 = was not
  std::int64_t body_bytes = 0;
  std::uint32_t version = 1;  // decide() raises it with each visible change
  // Which of the published copies is the current one: the version that the last claim gave the row; 0 = none.
  // The version alone does not tell: other changes raise it as well.
  std::uint32_t copy_number = 0;
  // The number of the parked copy (kParkedCopy) whose failure reopened it last; 0 = none.
  std::uint32_t came_back = 0;
  std::optional<Silence> silence;  // what silence means for this task; none = see its queue's rules
  // What it means after the last delivery: as it was when that was confirmed. none = no delivery yet.
  std::optional<Silence> said;
  // It was published to exchange and routing_key, maybe to several queues: a result may be for another
  // queue's copy. Stays set when a failure has named the queue.
  bool by_exchange = false;
  // message_digest() of its message (identity.h).
  std::string digest;
  // The task from whose delivery this message took its headers, and whose place on the ladder it continues;
  // or the parked task that it replaces. 0 = none.
  TaskId parent;
  // The new task with its edited message (edit.h), for which it is not sent again; 0 = none.
  TaskId replaced_by;
  // Of its last failure (src/store/causes.h); set by the store. "" = it has not failed.
  std::string cause;

  bool operator==(const Task&) const = default;
};

// The task waits for next_at, when its shard's owner claims it.
inline bool waits_for_claim(const Task& task) {
  const bool refused = task.state == State::publishing && task.epoch == 0;
  return task.next_at && (task.state == State::scheduled || refused);
}

// Task::rule of a message that the database could not store: its row has no body, and nothing sends it.
inline constexpr std::string_view kNotStored = "not_stored";
inline bool body_stored(const Task& task) { return task.rule != kNotStored; }
// Why it is not sent, and where its message is.
std::string not_stored_text(const std::string& last_error);

// What limits count.
inline int counted_attempts(const Task& task) { return task.attempt - task.uncounted_attempts; }
inline Ms counted_age(const Task& task, EpochMs now) {
  return now - task.first_failed_at - task.uncounted_time;
}

// Target of its next attempt; not set: none.
Target target_of(const Task& task);

inline constexpr std::size_t kErrorBytes =
    16 * 1024;  // longer error texts are cut, on a character's boundary

// One row of rung_attempts, key (task, attempt).
struct Attempt {
  TaskId task;
  int attempt = 1;
  int level = 1;
  EpochMs due_at;
  std::optional<EpochMs> published_at;  // the broker's confirm (or return), by the database's clock
  Outcome outcome = Outcome::pending;
  std::optional<EpochMs> outcome_at;
  std::string error;
  int node = 0;
  std::string executor;     // who handled it, as reported (retry-executor): an address; "" = not reported
  std::string rule;         // that decided what followed its failure; "" = none
  std::uint64_t epoch = 0;  // of the lease under which it was claimed; 0 = not known, or not read
  bool operator==(const Attempt&) const = default;
};

// Whether another intake with the same key is a new task (NewTask::same_if_over_since). A delay ends with its
// delivery: a message that is published again after that, even by its own consumer, is delayed again.
inline bool is_over(State state, Kind kind, int attempt) {
  return is_finished(state) || (kind == Kind::delay && attempt > 0);
}

// A task to be inserted, made from a failed or delayed message.
struct NewTask {
  Task task;
  MessagePtr message;  // as it will be published: application headers and properties, stripped (headers.h)
  std::string origin_json;
  // 16 bytes; the same intake delivered twice has the same key. "" = cannot be identified (no message-id).
  std::string intake_key;
  // A row with this key that is_over() still counts as the same intake if it was created at or after this
  // time. If it is older, or this is none, it gives up the key, and this is a new task.
  std::optional<EpochMs> same_if_over_since;
  // A row with this key that is open and has had an attempt gives up the key, too: this may be the failure of
  // that attempt, from a consumer that does not pass its retry-id on.
  bool may_be_its_retry = false;
  // It replaces a parked task, whose last failure it has: no new failure.
  bool edited = false;
  // Its consumer's retry-after holds back the whole queue for so long, as Decision::holds_queue.
  std::optional<Ms> holds_queue = {};
};

// An error in one line: its first, with the type in front unless the line begins with it.
std::string error_line(std::string_view type, std::string_view error);

// Whether a row with the same intake key gives it up to the new task, by the rules above.
inline bool gives_up_key(bool over, int attempt, EpochMs created_at, const NewTask& to) {
  if (!over) return to.may_be_its_retry && attempt > 0;
  return !(to.same_if_over_since && created_at >= *to.same_if_over_since);
}

// --- the headers that tell a consumer where a retried message came from and why it is retried; and whether
// it returns under its original routing key. Thread: pure functions.

// rejected, expired, maxlen, delivery_limit, returned or silent: why the last attempt failed. "" for a task
// that has not failed. REQUIRES: the task is as fail() and the intake leave it.
std::string_view retry_reason(const Task& task);

// What a message had before it came back with other properties or headers, as JSON.
struct EarlierContent {
  int attempt = 0;  // whose delivery had it
  std::string properties, headers;
};
// A row's origin (NewTask::origin_json) with one more of these under kEarlierContent, an array. It keeps
// the first and the latest, kMostEarlier in all.
inline constexpr const char* kEarlierContent = "earlier content";
inline constexpr std::size_t kMostEarlier = 10;
std::string add_earlier(std::string_view origin_json, const EarlierContent& earlier);
// The origin for those who may not see messages: without what is part of one, and without retry-token. "" =
// it is not known.
std::string without_content(std::string_view origin_json);

// Whether the message returns to its queue with its original routing key: the key it had at an exchange other
// than `prefix`.*, stored in the row to the byte. The plugin decides whether the broker can do that. False:
// the routing key is the queue's name.
bool keeps_routing_key(const Task& task, std::string_view prefix);

}  // namespace rung
