#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "src/core/base/result.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"
#include "src/store/causes.h"
#include "tests/support/memory/memory_store.h"

namespace rung {
namespace {

constexpr int kTries = 6;  // of a transaction, after Again

// As same_tasks_unread asks: the claim that the caller made, in the row or short.
bool is_as_claimed(const Task& row, const Task& claimed) {
  return (row.version == claimed.version && row.state == State::publishing) ||
         (row.version + 1 == claimed.version && row.state == State::scheduled);
}

}  // namespace

void MemoryStore::transaction(const std::function<void()>& body, std::string_view /*name*/) {
  const std::lock_guard lock(db_.mutex_);
  db_.faults_.before_call();
  wrote_ = false;
  for (int tries = 1;; ++tries) {
    try {
      body();
      break;
    } catch (const StoreError&) {
      RUNG_REQUIRE(!wrote_);
      throw;
    } catch (const Again& again) {
      RUNG_REQUIRE(!wrote_);
      if (tries == kTries) throw StoreError({Error::Kind::transient, again.why});
    }
  }
  db_.faults_.after_call();
}

std::vector<Lease> MemoryStore::share_leases(const Fence& fence) {
  return db_.leases_.held(fence.node, fence.leases, db_.now_());
}

void MemoryStore::guard_leases(const Fence& fence) {
  if (share_leases(fence).size() != fence.leases.size()) throw Again{"a lease is not held"};
}

std::vector<Lease> MemoryStore::current_leases() {
  std::vector<Lease> leases;
  for (const ShardRow& shard : db_.leases_.shards()) {
    if (shard.owner != 0 && shard.expires_at > db_.now_()) leases.push_back({shard.shard, shard.epoch});
  }
  return leases;
}

Tables::Locked MemoryStore::lock(const Fence& fence, std::span<const TaskId> ids) {
  Locked locked{share_leases(fence), db_.now_()};
  locked.tasks.reserve(ids.size());
  for (const TaskId id : ids) {
    const MemoryTask* row = db_.tasks_.find(id);
    if (row != nullptr) locked.tasks.push_back({row->current(), row->has_short_claim()});
  }
  return locked;
}

void MemoryStore::write_tasks(std::span<const ChangedTask> tasks) {
  wrote_ = true;
  for (const ChangedTask& changed : tasks)
    db_.tasks_.change(db_.tasks_.find(changed.after->id)->task, *changed.after);
}

bool MemoryStore::write_unread(std::span<const ChangedTask> tasks, const Fence& fence) {
  const auto was_claimed = [](const ChangedTask& task) { return task.before->state == State::publishing; };
  if (!std::ranges::all_of(tasks, was_claimed)) return false;
  guard_leases(fence);
  for (const ChangedTask& changed : tasks) {
    const MemoryTask* row = db_.tasks_.find(changed.before->id);
    if (row == nullptr || !is_as_claimed(row->task, *changed.before))
      throw Again{"another transaction has changed a task"};
  }
  write_tasks(tasks);
  return true;
}

void MemoryStore::write_attempts(const AttemptChanges& attempts, bool /*repeated*/) {
  wrote_ = true;
  db_.tasks_.write(attempts);
}

void MemoryStore::replace_message(const Task& task, const MessagePtr& message) {
  MemoryTask& row = *db_.tasks_.find(task.id);
  const Message& before = *row.message;
  row.origin = add_earlier(row.origin, {task.attempt, properties_to_json(before.properties),
                                        before.headers ? headers_to_json(*before.headers) : std::string()});
  row.message = message;
}

void MemoryStore::write_audit(std::span<const AuditRow> rows) {
  for (const AuditRow& row : rows) db_.records_.write(row);
}

void MemoryStore::write_causes(const CauseChanges& changes, int node, EpochMs now) {
  for (CauseRow row : changes.fresh()) {
    row.first_seen = row.last_seen = now;
    if (!db_.causes_.try_emplace(row.id, row).second) continue;
    db_.records_.write(SystemEvent{"cause_appeared", row.id, describe(row), 0, {}, db_.leases_.name(node)},
                       db_.now_());
  }
  db_.cause_book_.stored(changes.fresh());
}

bool MemoryStore::step_bulk(const BulkStep& step, const BulkStepCounts& counts) {
  MemoryBulks::Row* const row = db_.bulks_.find_running(step);
  if (row == nullptr) return false;
  wrote_ = true;
  row->move_on(counts, step.rate, db_.now_());
  return true;
}

void MemoryStore::keep_sent(const BulkStep& step, std::span<const TaskId> changed) {
  MemoryBulks::Row& row = *db_.bulks_.find(step.bulk);
  for (const TaskId id : changed) row.changed[id] = db_.tasks_.find(id)->task.attempt;
}

std::vector<Tables::SameId> MemoryStore::find_ids(std::span<const NewRow> rows) {
  std::vector<SameId> found;
  for (const NewRow& n : rows) {
    const MemoryTask* row = db_.tasks_.find(n.task->task.id);
    if (row == nullptr) continue;
    found.push_back({row->task.id, row->task.created_at, row->task.message_id, row->message->body.str()});
  }
  return found;
}

std::vector<Tables::SameKey> MemoryStore::find_keys(std::span<const NewRow> rows) {
  std::vector<SameKey> found;
  for (const NewRow& n : rows) {
    const MemoryTask* row = db_.tasks_.find_by_key(n.key);
    if (row == nullptr) continue;
    const Task now = row->current();
    found.push_back({n.key, now.id, now.state, now.kind, now.attempt, now.created_at});
  }
  return found;
}

std::int64_t MemoryStore::free_keys(std::span<const TaskId> ids, std::span<const TaskId> /*open*/) {
  wrote_ = true;
  for (const TaskId id : ids) db_.tasks_.free_key(id);
  return std::ssize(ids);
}

void MemoryStore::insert_rows(std::span<const NewRow* const> rows) {
  std::set<TaskId> ids;
  for (const NewRow* row : rows) {
    const TaskId id = row->task->task.id;
    if (!ids.insert(id).second || db_.tasks_.find(id) != nullptr ||
        db_.tasks_.find_by_key(row->key) != nullptr)
      throw Again{"another transaction has written the same row"};
  }
  wrote_ = true;
  for (const NewRow* row : rows) {
    Task task = row->task->task;
    task.cause = row->cause;
    db_.tasks_.insert({std::move(task), row->task->message, row->task->origin_json, row->key, {}});
  }
}

void MemoryStore::read_messages(std::span<const TaskId> ids, std::vector<StoredMessage>& into) {
  into = db_.tasks_.messages(ids);
}

std::size_t MemoryStore::short_claims_from() const {
  const std::lock_guard lock(db_.mutex_);
  return db_.short_claims_;
}

double MemoryStore::random() { return std::uniform_real_distribution<double>(0.0, 1.0)(db_.dice_); }

}  // namespace rung
