// What people and programs ask about tasks. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/audit.h"
#include "src/core/result.h"
#include "src/core/task.h"
#include "src/store/leases.h"

namespace rung {

// A header's value as rung_task_headers keeps it: text, a number, true or false; the first kIndexedBytes of
// it.
// "" = no such header, or one whose value can't be searched for (a table, an array, bytes that are not
// UTF-8).
inline constexpr std::size_t kIndexedBytes = 255;
std::string indexed_value(const Message& message, std::string_view header);

// Which rows list() shows. Empty = all; the newest first.
struct Filter {
  enum class Order : std::uint8_t {
    newest,
    oldest,
    due
  };  // due: the next due first; what isn't due comes last

  std::optional<State> state = {};
  std::vector<State> states = {};  // any of these; empty = as `state` says
  std::optional<Kind> kind = {};
  std::string queue = {}, exchange = {}, tag = {}, message_id = {}, ladder = {};
  std::string error_contains = {};
  std::optional<EpochMs> due_before = {}, due_after = {}, created_before = {}, created_after = {};
  std::optional<TaskId> below = {};  // cursor: ids smaller than this
  int limit = 50;
  std::string correlation_id = {};
  // Name and value of headers in StoreOptions::index_headers; all have to match.
  std::vector<std::pair<std::string, std::string>> headers = {};
  Order order = Order::newest;
};

// retry_current, retry_history, for people: with the node's name instead of its number.
struct TaskRow {
  Task task;
  std::string node;
  // Property `correlation_id`; "" = none; nullopt: not read, the row was made from a change's outcome.
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
struct QueueStat {  // retry_by_queue
  std::string queue;
  State state = State::scheduled;
  std::int64_t tasks = 0;
  std::optional<EpochMs> oldest_due_at;
  std::int64_t overdue = 0;
};

// Reads alone: nothing here changes a row.
class QueryStore {
 public:
  virtual ~QueryStore() = default;

  // The database's time.
  virtual Result<EpochMs> now() = 0;

  // How many match, at most `most`: counting stops there.
  virtual Result<std::int64_t> count(const Filter& filter, std::int64_t most) = 0;
  virtual Result<std::vector<AuditRow>> audit(TaskId id) = 0;  // the oldest first
  virtual Result<std::vector<TaskRow>> list(const Filter& filter) = 0;
  virtual Result<std::optional<TaskRow>> find(TaskId id) = 0;
  // Those that exist, in any order.
  virtual Result<std::vector<KnownTask>> known(std::span<const TaskId> ids) = 0;
  virtual Result<std::vector<AttemptRow>> history(TaskId id) = 0;  // by attempt
  virtual Result<std::string> origin(TaskId id) = 0;               // NewTask::origin_json; not_found
  virtual Result<std::vector<QueueStat>> by_queue() = 0;
  // Every node that ever was, by id. expires_at is over: it died, or left where seen_at is not before it.
  virtual Result<std::vector<NodeRow>> nodes() = 0;
  // Scheduled and due, by the database's clock; a shard that has none is left out. By shard.
  virtual Result<std::vector<ShardOverdue>> overdue() = 0;
};

}  // namespace rung
