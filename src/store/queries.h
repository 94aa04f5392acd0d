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

}  // namespace rung
