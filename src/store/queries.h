// Queries about tasks, for people and programs. Thread, errors: store.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/task/task.h"
#include "src/store/audit.h"
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
  enum class Field : std::uint8_t { queue, error_type, tag, level, cause, header };
  Field field = Field::queue;
  std::string header = {};  // its name, one of StoreOptions::index_headers

  // "queue", "error_type", "tag", "level", "cause", "header.NAME".
  static std::optional<CountBy> parse(std::string_view text);
  std::string str() const;
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
// What Order::due sorts by.
inline std::pair<std::int64_t, TaskId> due_order(const Task& task) {
  const auto due = due_of(task);
  return {due ? due->ms : INT64_MAX, task.id};
}

// Read-only: nothing here changes a row.
class QueryStore {
 public:
  virtual ~QueryStore() = default;

  // The database's time.
  virtual Result<EpochMs> now() = 0;

  // The number of matches; counting stops at `most`.
  virtual Result<std::int64_t> count(const Filter& filter, std::int64_t most) = 0;
  // The same, by the values of a field.
  virtual Result<TaskCounts> count_by(const Filter& filter, const CountBy& by, std::int64_t most) = 0;
  virtual Result<std::vector<AuditRow>> audit(TaskId id) = 0;          // the oldest first
  virtual Result<AuditPage> audit_log(const AuditFilter& filter) = 0;  // of all tasks and queues
  virtual Result<std::vector<TaskRow>> list(const Filter& filter) = 0;
  virtual Result<std::optional<TaskRow>> find(TaskId id) = 0;
  // Those that exist, in any order.
  virtual Result<std::vector<KnownTask>> known(std::span<const TaskId> ids) = 0;
  // The oldest kMostChildren tasks whose parent this one is and that carry its message-id: there is an index
  // of message-ids, and none of parents. Of the tasks with that message-id, kMostLookedAt are looked at.
  static constexpr int kMostChildren = 20, kMostLookedAt = 1000;
  virtual Result<std::vector<TaskId>> children(const Task& task) = 0;
  // By task and attempt; tasks without attempts are left out.
  virtual Result<std::vector<AttemptRow>> histories(std::span<const TaskId> ids) = 0;
  Result<std::vector<AttemptRow>> history(TaskId id) { return histories({&id, 1}); }
  virtual Result<std::string> origin(TaskId id) = 0;  // NewTask::origin_json; not_found
  // Tasks that have not ended, and parked ones, by queue and state.
  virtual Result<std::vector<QueueStat>> open_by_queue() = 0;
  // The succeeded, then the cancelled, then the discarded ones. There may be a hundred million, more than one
  // query can count: a call counts a piece of about `most`.
  virtual Result<EndedPiece> count_ended(const EndedPlace& from, int most) = 0;
  // All nodes ever registered, by id. If expires_at has passed, the node died, or it left if seen_at is not
  // before expires_at.
  virtual Result<std::vector<NodeRow>> nodes() = 0;
  // Scheduled tasks that are due, by the database's clock. By shard, without shards that have none.
  virtual Result<std::vector<ShardOverdue>> overdue() = 0;
};

}  // namespace rung
