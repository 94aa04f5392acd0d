// Queries about tasks, for people and programs. Thread, errors: store.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/task/task.h"
#include "src/store/leases.h"

namespace rung {

// Which rows list() shows. Empty = all; the newest first.
struct Filter {
  enum class Order : std::uint8_t {
    newest,
    oldest,
    due
  };  // due: the earliest due time first, tasks without one last

  std::optional<State> state = {};
  std::vector<State> states = {};  // any of these; empty = use `state`
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
// "newest", "oldest", "due".
std::optional<Filter::Order> order_from(std::string_view word);

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
// Where counting goes on: behind this task.
struct EndedPlace {
  State state = kEndedStates.front();
  std::string queue = {};
  TaskId id = {};  // 0: with the state's first task
};
struct QueueStat {  // retry_by_queue
  std::string queue;
  State state = State::scheduled;
  std::int64_t tasks = 0;
  std::optional<EpochMs> oldest_due_at;
  std::int64_t overdue = 0;
};
// The place of the first task of the next state; none: it was the last one.
std::optional<EndedPlace> ended_after(State state);
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
