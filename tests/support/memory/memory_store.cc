#include "tests/support/memory/memory_store.h"

#include <algorithm>
#include <utility>

#include "src/core/base/result.h"

namespace rung {

void MemoryFaults::before_call() {
  if (fail <= 0) return;
  --fail;
  throw StoreError({fail_kind, "the memory store was told to fail"});
}

void MemoryFaults::after_call() {
  if (lose <= 0) return;
  --lose;
  throw StoreError({Error::Kind::transient, "the memory store was told to lose its answer"});
}

void MemoryFaults::expect_readable(std::span<const TaskId> ids) const {
  if (std::ranges::any_of(ids, [&](TaskId id) { return unreadable.contains(id); }))
    throw StoreError({Error::Kind::permanent, "the memory store was told that a message cannot be read"});
}

MemoryDb::MemoryDb(std::shared_ptr<const Clock> clock, std::uint64_t seed)
    : now_([clock = std::move(clock)] { return clock->wall(); }), dice_(seed) {}

EpochMs MemoryDb::now() const {
  const std::lock_guard lock(mutex_);
  return now_();
}
void MemoryDb::set_now(EpochMs now) {
  const std::lock_guard lock(mutex_);
  now_ = [now] { return now; };
}
void MemoryDb::advance(Ms by) {
  const std::lock_guard lock(mutex_);
  now_ = [now = now_() + by] { return now; };
}
void MemoryDb::fail_next(int calls, Error::Kind kind) {
  const std::lock_guard lock(mutex_);
  faults_.fail = calls;
  faults_.fail_kind = kind;
}
void MemoryDb::lose_next_answers(int calls) {
  const std::lock_guard lock(mutex_);
  faults_.lose = calls;
}
void MemoryDb::make_unreadable(TaskId id) {
  const std::lock_guard lock(mutex_);
  faults_.unreadable.insert(id);
}
void MemoryDb::set_short_claims(std::size_t from) {
  const std::lock_guard lock(mutex_);
  short_claims_ = from;
}
void MemoryDb::set_max_body(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  faults_.max_body = bytes;
}
int MemoryDb::use_partitions(bool yes) {
  const std::lock_guard lock(mutex_);
  partitions_in_use_ = yes;
  return partition_changes_;
}
std::function<void()> MemoryDb::back_up() {
  const std::lock_guard lock(mutex_);
  return [this, leases = leases_, tasks = tasks_, pauses = pauses_, causes = causes_] {
    const std::lock_guard restoring(mutex_);
    leases_ = leases;
    tasks_ = tasks;
    pauses_ = pauses;
    causes_ = causes;  // processes still know the others
  };
}
void MemoryDb::damage_gates(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  auto& [state, changed_at] = gates_[queue];
  changed_at = now_();
  state.queue = queue;
  Breaker& breaker = state.breaker;
  breaker = {breaker.state, breaker.since, breaker.until, 0, breaker.since, "", 0, 0, {}, breaker.reason};
  state.damaged = true;
}

void MemoryTasks::add_to_indexes(const Task& task) {
  const auto state = static_cast<std::size_t>(task.state);
  if (task.next_at) due_[state][static_cast<std::size_t>(task.shard)].emplace(*task.next_at, task.id);
  if (task.finished_at) finished_[state].emplace(*task.finished_at, task.id);
}

void MemoryTasks::remove_from_indexes(const Task& task) {
  const auto state = static_cast<std::size_t>(task.state);
  if (task.next_at) due_[state][static_cast<std::size_t>(task.shard)].erase({*task.next_at, task.id});
  if (task.finished_at) finished_[state].erase({*task.finished_at, task.id});
}

MemoryTask* MemoryTasks::find(TaskId id) {
  const auto row = rows_.find(id);
  return row == rows_.end() ? nullptr : &row->second;
}

MemoryTask* MemoryTasks::find_by_key(const std::string& intake_key) {
  const auto key = keys_.find(intake_key);
  return key == keys_.end() ? nullptr : find(key->second);
}

void MemoryTasks::insert(MemoryTask row) {
  const TaskId id = row.task.id;
  RUNG_REQUIRE(!rows_.contains(id));
  if (!row.intake_key.empty()) RUNG_REQUIRE(keys_.emplace(row.intake_key, id).second);
  add_to_indexes(row.task);
  rows_[id] = std::move(row);
}

void MemoryTasks::free_key(TaskId id) {
  std::string& key = rows_.at(id).intake_key;
  keys_.erase(key);
  key.clear();
}

void MemoryTasks::change(Task& task, Task to) {
  remove_from_indexes(task);
  task = std::move(to);
  add_to_indexes(task);
}

void MemoryTasks::write(const AttemptChanges& changes) {
  for (const auto& [task, attempt] : changes.dropped) rows_.at(task).attempts.erase(attempt);
  for (const Attempt& said : changes.kept) {
    Attempt& row = rows_.at(said.task).attempts.try_emplace(said.attempt, said).first->second;
    if (said.published_at) row.published_at = said.published_at;
    if (said.outcome != Outcome::pending) row.outcome = said.outcome;
    if (said.outcome_at) row.outcome_at = said.outcome_at;
    if (!said.error.empty()) row.error = said.error;
    if (said.node != 0) row.node = said.node;
    if (!said.executor.empty()) row.executor = said.executor;
    if (!said.rule.empty()) row.rule = said.rule;
    if (said.epoch != 0) row.epoch = said.epoch;
  }
}

std::unique_ptr<MemoryStore> open_memory_store(std::shared_ptr<MemoryDb> db) {
  return std::make_unique<MemoryStore>(std::move(db));
}

}  // namespace rung
