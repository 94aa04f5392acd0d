// A task: one message on its way up a ladder, and an attempt: one delivery of it.
// Thread: values, free of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/ids.h"
#include "src/core/message.h"
#include "src/core/time.h"

namespace rung {

// Persisted as the words below (ENUM columns). NOTE: do not change or reorder; only append.
enum class State : std::uint8_t {
  unknown = 0,  // the row has a word that a newer version of Rung wrote; decide() refuses everything
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
enum class FinishedBy : std::uint8_t { nobody = 0, reported, presumed };

std::string_view to_word(State);
std::string_view to_word(Kind);
std::string_view to_word(Outcome);
std::string_view to_word(FinishedBy);  // "" for nobody
std::optional<State> state_from(std::string_view word);
std::optional<Kind> kind_from(std::string_view word);
std::optional<Outcome> outcome_from(std::string_view word);
std::optional<FinishedBy> finished_by_from(std::string_view word);

inline bool is_finished(State s) { return s >= State::succeeded; }

inline constexpr int kShards = 64;

// What silence after a delivery means.
struct Silence {
  enum class Means { success, failure };
  Means means = Means::success;
  Ms after{std::chrono::minutes{10}};
  bool operator==(const Silence&) const = default;
};

// Where a message is published to. By queue: through the default exchange, so that no other binding gets
// copies.
struct Target {
  std::string queue;                  // "" = by exchange and routing key
  std::string exchange, routing_key;  // exchange "" = the default one: the routing key is a queue's name
  bool is_set() const { return !queue.empty() || !exchange.empty() || !routing_key.empty(); }
  bool operator==(const Target&) const = default;
};
// The default exchange's routing key is a queue: said so, it has that queue's rules.
Target normalised(Target target);

// The row of rung_tasks that changes.
struct Task {
  TaskId id;
  int shard = 0;  // 0 .. kShards-1
  State state = State::scheduled;
  Kind kind = Kind::retry;
  // When somebody has to do something to the row. scheduled, publishing: the due time of the coming or
  // running attempt. awaiting: when silence is taken for an answer. parked: set while a copy for rung.parked
  // is owed.
  std::optional<EpochMs> next_at;
  int attempt = 0;       // deliveries claimed so far; in publishing and awaiting the one under way, from 1
  int level = 1;         // the rung whose delay is waited for, or whose attempt is under way; from 1.
                         // 0: a delay without a failure before
  int levels = 0;        // rungs of its ladder when the level was last set
  int max_attempts = 0;  // retry-max-attempts; 0 = the ladder's length alone decides
  std::string ladder;
  bool ladder_pinned = false;  // named by header retry-ladder: stays, whatever the queue's ladder becomes
  // The lease's epoch of the last claim; 0 in `publishing`: the broker refused the message, while a copy from
  // an earlier publish of the attempt may be with a consumer. It is claimed again at next_at.
  std::uint64_t epoch = 0;
  int node = 0;  // rung_nodes.id of the instance that acted last; 0 = none

  // Where it goes (back) to. "": parked for want of one, or it goes by_exchange and no failure has said yet
  // in which queue it was.
  std::string queue;
  std::string exchange, routing_key;  // where it was published to at first, as far as is known
  std::string tag;                    // property `type`
  std::string message_id;             // property `message_id`; "" = none
  EpochMs first_failed_at;            // 0 = it has not failed
  EpochMs created_at;
  std::optional<EpochMs> finished_at;  // parked counts as finished: nothing moves it but a person
  FinishedBy finished_by = FinishedBy::nobody;
  std::string last_error;  // UTF-8, at most kErrorBytes
  std::string error_type;  // retry-error-type
  std::int64_t body_bytes = 0;
  std::uint32_t version = 1;       // grows with each change that shows, by decide()
  std::optional<Silence> silence;  // what silence means for this task; none = as its queue's rules say
  // It went to exchange and routing_key, and maybe to several queues: a word may be of another's copy. Stays
  // when a failure has said the queue.
  bool by_exchange = false;

  bool operator==(const Task&) const = default;
};

// Waits for next_at, when whoever owns its shard claims it.
inline bool waits_for_claim(const Task& task) {
  const bool refused = task.state == State::publishing && task.epoch == 0;
  return task.next_at && (task.state == State::scheduled || refused);
}

// Where its next attempt is published to; not set: nowhere.
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
  std::string executor;  // who handled it, as they say (retry-executor): an address; "" = nobody said
  bool operator==(const Attempt&) const = default;
};

// Whether the same key, said again, means something new (NewTask::same_if_over_since). Of a delay the
// delivery is the end: what is published again after it, by its own consumer too, wants to wait again.
inline bool is_over(State state, Kind kind, int attempt) {
  return is_finished(state) || (kind == Kind::delay && attempt > 0);
}

// What a failed or delayed message becomes when it is taken in.
struct NewTask {
  Task task;
  MessagePtr message;  // as it will go out again: application headers and properties, stripped (headers.h)
  // Facts that must not travel on but must not be lost: the broker's own headers, user-id,
  // expiration ... as JSON text.
  std::string origin_json;
  // 16 bytes; the same intake delivered twice has the same key. "" = cannot be told apart (no message-id).
  std::string intake_key;
  // A row with this key that is over (finished, or a delay that has been delivered) still means "the same
  // intake" if it was created at or after this; else, and where none is said, it lets go of the key, and this
  // one is a new task.
  std::optional<EpochMs> same_if_over_since;
};

}  // namespace rung
