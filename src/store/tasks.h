// Writes tasks, finds those that are due, and answers queries about them. Thread, errors: store.h.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/machine/by_hand.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"
#include "src/store/system.h"

namespace rung {

// The writer's identity, checked against the leases, under a lock, in the write's transaction.
struct Fence {
  int node = 0;
  std::vector<Lease> leases;  // those the caller believes it holds; the store checks which it does
  bool by_hand = false;       // insert() only: needs no lease; the shard's owner finds the row by its sweep
};

// The same with the leases of these items' shards alone: each lease costs the database a row lock.
template <typename Items, typename ShardOf>
Fence narrowed(const Fence& fence, const Items& items, ShardOf shard_of) {
  std::bitset<kShards> shards;
  for (const auto& item : items) shards.set(static_cast<std::size_t>(shard_of(item)));
  Fence out{fence.node, {}, fence.by_hand};
  std::ranges::copy_if(fence.leases, std::back_inserter(out.leases),
                       [&](const Lease& l) { return shards.test(static_cast<std::size_t>(l.shard)); });
  return out;
}

struct Inserted {
  enum class How {
    inserted,
    duplicate,  // the same intake was inserted before: `id` is its row
    not_held,   // the shard's lease is gone: nothing was written, also not by an earlier try of the same call
    id_taken,   // another message has this id already (nodes 1024 apart, a clock that stepped back): nothing
                // was written; the same message under a new id will be
    too_large,  // the database does not take a body of this size: nothing was written, the others were
  };
  How how = How::inserted;
  TaskId id;
};

struct StoredMessage {
  TaskId id;
  MessagePtr message;       // nullptr: its row cannot be read, e.g. because it was changed by hand ...
  std::string broken = {};  // ... and why
};

// What a task's message takes in memory, approximate.
inline std::size_t message_bytes(const Task& task) { return static_cast<std::size_t>(task.body_bytes) + 512; }

struct Claimed {
  std::vector<Decision> decisions;      // in the order of the events
  std::vector<StoredMessage> messages;  // of the first claimed tasks
};
// The claimed tasks, in order, whose messages take at most `most_bytes` together; at least one.
std::vector<TaskId> first_claimed(std::span<const Decision> decisions, std::size_t most_bytes);

// From so many claims in one call on, claim() writes short ones (machine.h). Fewer: a message that comes
// alone costs round trips and commits, not rows. Measured by `tests/bench/compare --only W3`.
inline constexpr std::size_t kShortClaims = 32;

struct DueEntry {
  TaskId id;
  int shard = 0;
  EpochMs at;
  std::string queue;
  bool operator==(const DueEntry&) const = default;
};

// Which kinds of work wait in the tables.
struct WorkWaiting {
  bool scheduled = false;  // due rows. Claimed ones count, too
  bool awaiting = false;   // expired silence
  bool parked = false;     // copies owed to <prefix>.parked
  bool bulks = false;      // a step of a bulk is due, perhaps another instance's
  bool cause_changes = false;
  bool operator==(const WorkWaiting&) const = default;
};

struct BulkStep;

// --- queries, for people and programs

// Which rows list() shows. Empty = all; the newest first.
struct Filter {
  // due: the earliest due time first, tasks without one last.
  enum class Order : std::uint8_t { newest = 1, oldest, due };

  std::vector<State> states = {};  // any of these; empty = all
  std::optional<Kind> kind = {};
  std::string queue = {}, exchange = {}, tag = {}, message_id = {}, ladder = {};
  std::string error_contains = {}, error_type = {};
  std::optional<EpochMs> due_before = {}, due_after = {}, created_before = {}, created_after = {};
  std::optional<TaskId> after = {};  // only what `order` lists behind this task
  int limit = 50;
  std::string correlation_id = {};
  // Name and value of headers in StoreOptions::index_headers; all have to match.
  std::vector<std::pair<std::string, std::string>> headers = {};
  Order order = Order::newest;
  std::optional<EpochMs> first_failed_before = {}, first_failed_after = {};
  bool silence_held = false;  // only deliveries whose silence is held open
  // Of the task `after`, with Order::due: its due_of().
  std::optional<EpochMs> after_due = {};
  std::string cause = {};                // of the last failure
  std::optional<bool> body_stored = {};  // body_stored()
};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Filter::Order>{"newest", "oldest", "due"};

// What to count tasks by.
struct CountBy {
  std::string field = "queue";  // or error_type, tag, level, cause, header
  std::string header = {};      // its name, one of StoreOptions::index_headers

  // "queue", "error_type", "tag", "level", "cause", "header.NAME".
  static std::optional<CountBy> parse(std::string_view text);
  std::string str() const { return header.empty() ? field : field + '.' + header; }
};
struct TaskCounts {
  struct Group {
    std::string value;  // "" = the tasks without one
    std::int64_t tasks = 0;
  };
  std::int64_t total = 0;     // counted tasks, in all groups
  std::vector<Group> groups;  // the largest first, at most kMostGroups
  std::int64_t others = 0;    // tasks in groups that are left out
};
inline constexpr int kMostGroups = 1000;

// Rows of retry_current and retry_history, for people: with the node's name instead of its number.
struct TaskRow {
  Task task;
  std::string node;
  // Property `correlation_id`; "" = none; nullopt: not read, the row comes from the result of a change.
  std::optional<std::string> correlation_id = {};
};
struct KnownTask {
  TaskRow row;
  std::string origin;  // NewTask::origin_json
};
struct AttemptRow {
  Attempt attempt;
  std::string queue, message_id, node;
};
// Kept until `retention` deletes them: nothing happens to them by itself.
inline constexpr std::array kEndedStates{State::succeeded, State::cancelled, State::discarded};
// Where counting goes on: behind this task. By default before all of a state: '' is not the least name, as it
// is padded with blanks.
struct EndedPlace {
  State state = kEndedStates.front();
  std::string queue = std::string(1, '\0');
  TaskId id = {};
};
struct QueueStat {  // retry_by_queue
  std::string queue;
  State state = State::scheduled;
  std::int64_t tasks = 0;
  std::optional<EpochMs> oldest_due_at;
  std::int64_t overdue = 0;
};
struct EndedPiece {
  std::vector<QueueStat> queues;   // a queue may come again in the next piece
  std::optional<EndedPlace> next;  // none: all are counted
};

// The due time that Order::due sorts by; none: it is not waiting for one.
std::optional<EpochMs> due_of(const Task& task);

// --- the changes by hand of all tasks and queues, the newest first

// Where a page ends: rows are ordered by time, and those of one millisecond by id.
struct AuditPlace {
  EpochMs at;
  std::int64_t id = 0;
  auto operator<=>(const AuditPlace&) const = default;
};

// Empty = all, without what bulks have done to single tasks.
struct AuditFilter {
  std::string queue = {}, what = {};
  std::string who = {};                           // how the name begins: it ends with an address or a host
  std::int64_t bulk = 0;                          // what it has done to each task; 0 = a bulk is one row
  std::optional<EpochMs> since = {}, until = {};  // without `until` itself
  std::optional<AuditPlace> after = {};           // only what is listed behind it
  int limit = 50;
  // No index serves them: one call looks at kMostAuditRead rows at most.
  bool selects() const { return !queue.empty() || !what.empty() || !who.empty(); }
};
inline constexpr int kMostAuditRead = 10'000;

struct AuditPage {
  struct Row {
    AuditRow change;
    std::string queue;  // of the task as it is now, or of the pause; "" = it has none, or has been deleted
  };
  std::vector<Row> rows;
  std::optional<AuditPlace> next;  // none: there are no more. The page may have no rows all the same
};

// --- what has changed lately, for people who watch (GET /v1/events): one statement, by primary keys and the
// newest ids alone, whatever the tables hold

struct LiveQuestion {
  static constexpr std::size_t kMostWatched = 200;  // tasks, by all viewers together
  // Where the answer before ended; by default now, without what was before.
  std::int64_t after_audit = INT64_MAX, after_event = INT64_MAX;
  std::vector<TaskId> watched = {};  // at most kMostWatched
};

struct LiveAnswer {
  static constexpr std::size_t kMost = 100;  // of each kind; more are counted as one
  std::int64_t newest_task = 0, newest_audit = 0, newest_event = 0;
  std::vector<TaskId> changed_by_hand = {};         // in the audit since then
  std::vector<std::string> event_kinds = {};        // retry_events since then
  std::map<TaskId, std::uint32_t> versions = {};    // of the watched tasks
  std::map<std::int64_t, std::int64_t> bulks = {};  // done, by the id of each bulk that has not ended
};

}  // namespace rung
