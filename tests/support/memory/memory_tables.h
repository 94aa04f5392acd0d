// The tables of MemoryDb. A class keeps rows that belong together, and sees to what must hold between them;
// what a call of Store means is in MemoryStore. `now`: by MemoryDb's clock. Functions that look up
// a row return nullptr if there is none; the pointer is valid until the row is deleted. Thread: the caller
// holds MemoryDb's lock. Errors: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/store/task_writer.h"

namespace rung {

// Instances, and which of them holds which shard. The ids of instances are 1, 2, ...; their rows stay.
class MemoryLeases {
 public:
  struct Node {
    NodeRow row;
    std::uint64_t incarnation = 0;
    std::uint64_t beats = 0;
  };
  MemoryLeases();

  Node& register_node(const std::string& name);  // also if it is there already
  Node* node(int id);
  bool is_incarnation(int id, std::uint64_t incarnation) const;
  std::string name(int id) const;  // "" = there is no such node
  const std::vector<Node>& nodes() const { return nodes_; }

  ShardRow& shard(int id) { return shards_[static_cast<std::size_t>(id)]; }
  std::vector<ShardRow>& shards() { return shards_; }
  std::vector<NodeRow> live(EpochMs now) const;
  // Those of `leases` that the node has.
  std::vector<Lease> held(int node, std::span<const Lease> leases, EpochMs now) const;

 private:
  std::vector<Node> nodes_;       // id = index + 1
  std::vector<ShardRow> shards_;  // shard = index
};

struct MemoryTask {
  Task task;
  MessagePtr message;
  std::string origin, intake_key;
  std::map<int, Attempt> attempts;

  bool has_short_claim() const {
    const auto next = attempts.find(task.attempt + 1);
    return next != attempts.end() && is_short_claim(task, next->second);
  }
  Task current() const {  // with its short claim, if it has one
    if (!has_short_claim()) return task;
    const Attempt& next = attempts.at(task.attempt + 1);
    return with_short_claim(task, next.epoch, next.node);
  }
};

inline constexpr std::size_t kStates = 8;  // of State

// Tasks with their attempts and bodies, the intake keys, of which each names the one task that has it, and
// the partitions of bodies. The body of a purged task is left until its partition is dropped or swept.
class MemoryTasks {
 public:
  using Rows = std::map<TaskId, MemoryTask>;
  const Rows& rows() const { return rows_; }
  using ByTime = std::set<std::pair<EpochMs, TaskId>>;
  // By next_at, those that have one.
  const ByTime& due(State state, int shard) const {
    return due_[static_cast<std::size_t>(state)][static_cast<std::size_t>(shard)];
  }
  // By finished_at, those that have one.
  const ByTime& finished(State state) const { return finished_[static_cast<std::size_t>(state)]; }
  MemoryTask* find(TaskId id);
  MemoryTask* find_by_key(const std::string& intake_key);
  std::vector<StoredMessage> messages(std::span<const TaskId> ids) const;

  // REQUIRES: its id and its key are new.
  void insert(MemoryTask row);
  void free_key(TaskId id);                   // REQUIRES: it is there, with a key
  void change(Task& task, Task to);           // `task`: of a row that find() has returned
  void write(const AttemptChanges& changes);  // REQUIRES: their tasks are there
  void purge(TaskId id);                      // REQUIRES: it is there

  std::vector<Partition> partitions;  // by end, without gaps
  std::map<TaskId, MessagePtr> left;  // bodies of purged tasks

 private:
  void add_to_indexes(const Task& task);
  void remove_from_indexes(const Task& task);

  Rows rows_;
  std::array<std::array<ByTime, kShards>, kStates> due_;  // by State and shard
  std::array<ByTime, kStates> finished_;                  // by State
  std::unordered_map<std::string, TaskId> keys_;
};

// Bulks, each with its frozen tasks. The ids are 1, 2, ...; a purged one keeps its place, but is not found.
class MemoryBulks {
 public:
  struct Row {
    Bulk bulk;
    std::vector<TaskId> ids;  // ascending
    EpochMs until, next;
    bool gone = false;                   // purged
    std::map<TaskId, int> changed = {};  // the last attempt before

    bool is_open() const { return bulk.state == BulkState::running || bulk.state == BulkState::paused; }
    bool names(TaskId id) const;
    void move_on(const BulkStepCounts& counts, double rate, EpochMs now);
  };
  Bulk add(Row row);  // as it is stored, with its id
  Row* find(std::int64_t id);
  // The bulk that the runner of `step` may continue.
  Row* find_running(const BulkStep& step);
  std::vector<Row>& rows() { return rows_; }
  bool is_in_open(TaskId id) const;
  bool is_in_open_redrive(TaskId id) const;  // and still to be sent
  std::int64_t purge(EpochMs before);        // returns how many

 private:
  std::vector<Row> rows_;  // id = index + 1
};

// What has happened: the audit and the events, each in the order of their ids.
class MemoryRecords {
 public:
  void write(AuditRow row);
  void write(SystemEvent event, EpochMs now);

  std::vector<AuditRow> audit;
  std::vector<SystemEvent> events;

 private:
  std::int64_t audited_ = 0;  // rows ever
};

// A row that instances read by the time of its last change.
template <typename T>
struct MemoryChanged {
  T row;
  EpochMs at;
};

}  // namespace rung
