// The tables of MemoryDb. Each class keeps rows that belong together, and sees to what must hold between
// them; what a call of Store means is in MemoryStore. `now`: by MemoryDb's clock. Functions that look up
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
#include <tuple>
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

  const std::vector<Partition>& partitions() const { return partitions_; }
  void add_partitions(std::span<const Partition> partitions);
  PartitionDrop drop_partition(const Partition& partition);
  Swept sweep(TaskId from, TaskId to, int limit);

 private:
  void add_to_indexes(const Task& task);
  void remove_from_indexes(const Task& task);

  Rows rows_;
  std::array<std::array<ByTime, kShards>, kStates> due_;  // by State and shard
  std::array<ByTime, kStates> finished_;                  // by State
  std::unordered_map<std::string, TaskId> keys_;
  std::map<TaskId, MessagePtr> left_;  // bodies of purged tasks
  std::vector<Partition> partitions_;  // by end, without gaps
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

  const std::vector<AuditRow>& audit() const { return audit_; }
  const std::vector<SystemEvent>& events() const { return events_; }

  // At most `limit` of each kind; adds to `gone` how many.
  void purge(EpochMs before, int limit, PurgedRecords& gone);

 private:
  std::int64_t audited_ = 0;  // rows ever
  std::vector<AuditRow> audit_;
  std::vector<SystemEvent> events_;
};

// Pauses and states of gates, by queue. A pause and a state are stored with the time of their
// last change, by which instances read them.
class MemoryGates {
 public:
  struct PauseRow {
    Pause pause;
    EpochMs changed_at;
  };
  using Pauses = std::map<std::string, PauseRow>;

  std::optional<Pause> pause(const std::string& queue, EpochMs now) const;
  void write(const Pause& pause, EpochMs now);
  void forget_pauses(EpochMs before);
  const Pauses& pauses() const { return pauses_; }
  void restore(Pauses pauses) { pauses_ = std::move(pauses); }

  const GateState* state(const std::string& queue) const;
  GateState& change_state(const std::string& queue, EpochMs now);  // creates it
  std::vector<GateState> states(EpochMs changed_since) const;
  // Whether the batch was applied before; from now on it was.
  bool repeats(const GateBatch& batch);

 private:
  struct StateRow {
    GateState state;
    EpochMs changed_at;
  };
  Pauses pauses_;
  std::map<std::string, StateRow> states_;
  std::map<std::string, std::string> batches_;  // the latest by maker
};

// Causes, without their counts: nothing here is folded or forgotten. And what processes know of them.
class MemoryCauses {
 public:
  using Rows = std::map<std::string, CauseRow>;

  CauseBook& book() { return book_; }
  // Returns the causes that are new.
  std::vector<CauseRow> write(const CauseChanges& changes, EpochMs now);
  const Rows& rows() const { return rows_; }
  void restore(Rows rows) { rows_ = std::move(rows); }  // processes still know the others
  void read();                                          // processes know what is stored

 private:
  CauseBook book_;
  Rows rows_;
};

// What instances have counted of promises, in buckets; each batch once.
class MemoryCounts {
 public:
  void add(const CountBatch& batch);
  std::vector<PromiseRow> promises(EpochMs now) const;
  int forget(EpochMs now, int limit);  // returns how many

 private:
  std::map<std::tuple<std::string, Ms, EpochMs>, PromiseCounts> promises_;  // by queue, length, since
  std::map<std::string, std::string> batches_;                              // the latest by maker
};

// Whether the failures of queues reach us.
class MemoryQueues {
 public:
  const AttachmentRecords& attachments() const { return attachments_; }
  AttachmentChange see(const AttachmentSighting& sighting, EpochMs now);

 private:
  AttachmentRecords attachments_;
};

}  // namespace rung
