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

class MemoryIntakeRows final : public IntakeRows {
 public:
  MemoryIntakeRows(MemoryDb& db, MemoryTransactions& transaction, std::span<const NewTask> tasks)
      : db_(db), transaction_(transaction), tasks_(tasks) {}

  bool is_too_large(std::size_t task) const override {
    return db_.faults_.is_too_large(*tasks_[task].message);
  }
  std::vector<SameId> find_ids() override {
    std::vector<SameId> found;
    for (const NewTask& n : tasks_) {
      const MemoryTask* row = db_.tasks_.find(n.task.id);
      if (row == nullptr) continue;
      found.push_back({n.task.id, row->task.created_at, row->task.message_id, row->message->body.str()});
    }
    return found;
  }
  std::vector<SameKey> find_keys() override {
    std::vector<SameKey> found;
    for (const NewTask& n : tasks_) {
      std::string key = intake_key_of(n);
      const MemoryTask* row = db_.tasks_.find_by_key(key);
      if (row == nullptr) continue;
      const Task now = row->current();
      found.push_back({std::move(key), now.id, now.state, now.kind, now.attempt, now.created_at});
    }
    return found;
  }
  std::int64_t free_keys(std::span<const TaskId> ids, std::span<const TaskId> /*open*/) override {
    transaction_.mark_written();
    for (const TaskId id : ids) db_.tasks_.free_key(id);
    return std::ssize(ids);
  }
  void insert(std::span<const std::size_t> tasks, std::span<const std::string> causes) override {
    std::set<TaskId> ids;
    for (const std::size_t i : tasks) {
      const TaskId id = tasks_[i].task.id;
      if (!ids.insert(id).second || db_.tasks_.find(id) != nullptr ||
          db_.tasks_.find_by_key(intake_key_of(tasks_[i])) != nullptr)
        throw Again{"another transaction has written the same row"};
    }
    transaction_.mark_written();
    for (const std::size_t i : tasks) {
      const NewTask& n = tasks_[i];
      Task task = n.task;
      task.cause = causes[i];
      db_.tasks_.insert({std::move(task), n.message, n.origin_json, intake_key_of(n), {}});
    }
  }

 private:
  MemoryDb& db_;
  MemoryTransactions& transaction_;
  const std::span<const NewTask> tasks_;
};

Result<void> MemoryTransactions::transaction(const std::function<void()>& body, std::string_view /*name*/) {
  const std::lock_guard lock(db_.mutex_);
  if (auto error = db_.faults_.before_call()) return tl::unexpected(*std::move(error));
  wrote_ = false;
  messages_.clear();
  for (int tries = 1;; ++tries) {
    try {
      body();
      break;
    } catch (const Abort& abort) {
      RUNG_REQUIRE(!wrote_);
      return tl::unexpected(abort.error);
    } catch (const Again& again) {
      RUNG_REQUIRE(!wrote_);
      if (tries == kTries) return transient(again.why);
    }
  }
  if (auto error = db_.faults_.after_call()) return tl::unexpected(*std::move(error));
  return {};
}

std::vector<Lease> MemoryTransactions::share_leases(const Fence& fence) {
  return db_.leases_.held(fence.node, fence.leases, db_.now_());
}

void MemoryTransactions::guard_leases(const Fence& fence) {
  if (share_leases(fence).size() != fence.leases.size()) throw Again{"a lease is not held"};
}

std::vector<Lease> MemoryTransactions::current_leases() {
  std::vector<Lease> leases;
  for (const ShardRow& shard : db_.leases_.shards()) {
    if (shard.owner != 0 && shard.expires_at > db_.now_()) leases.push_back({shard.shard, shard.epoch});
  }
  return leases;
}

MemoryTransactions::Locked MemoryTransactions::lock(const Fence& fence, std::span<const TaskId> ids) {
  Locked locked{share_leases(fence), db_.now_()};
  locked.tasks.reserve(ids.size());
  for (const TaskId id : ids) {
    const MemoryTask* row = db_.tasks_.find(id);
    if (row != nullptr) locked.tasks.push_back({row->current(), row->has_short_claim()});
  }
  return locked;
}

void MemoryTransactions::write_tasks(std::span<const ChangedTask> tasks) {
  wrote_ = true;
  for (const ChangedTask& changed : tasks)
    db_.tasks_.change(db_.tasks_.find(changed.after->id)->task, *changed.after);
}

bool MemoryTransactions::write_unread(std::span<const ChangedTask> tasks, const Fence& fence) {
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

void MemoryTransactions::write_attempts(const AttemptChanges& attempts, bool /*repeated*/) {
  wrote_ = true;
  db_.tasks_.write(attempts);
}

void MemoryTransactions::replace_message(const Task& task, const MessagePtr& message) {
  MemoryTask& row = *db_.tasks_.find(task.id);
  const Message& before = *row.message;
  row.origin = add_earlier(row.origin, {task.attempt, properties_to_json(before.properties),
                                        before.headers ? headers_to_json(*before.headers) : std::string()});
  row.message = message;
}

void MemoryTransactions::write_audit(std::span<const AuditRow> rows) {
  for (const AuditRow& row : rows) db_.records_.write(row);
}

void MemoryTransactions::write_causes(const CauseChanges& changes, int node, EpochMs now) {
  for (const CauseRow& cause : db_.causes_.write(changes, now)) {
    db_.records_.write(
        SystemEvent{"cause_appeared", cause.id, describe(cause), 0, {}, db_.leases_.name(node)}, db_.now_());
  }
}

bool MemoryTransactions::step_bulk(const BulkStep& step, const BulkStepCounts& counts) {
  MemoryBulks::Row* const row = db_.bulks_.find_running(step);
  if (row == nullptr) return false;
  wrote_ = true;
  row->move_on(counts, step.rate, db_.now_());
  return true;
}

void MemoryTransactions::keep_sent(const BulkStep& step, std::span<const TaskId> changed) {
  MemoryBulks::Row& row = *db_.bulks_.find(step.bulk);
  for (const TaskId id : changed) row.changed[id] = db_.tasks_.find(id)->task.attempt;
}

std::unique_ptr<IntakeRows> MemoryTransactions::intake(std::span<const NewTask> tasks) {
  return std::make_unique<MemoryIntakeRows>(db_, *this, tasks);
}

void MemoryTransactions::read_messages(std::span<const TaskId> ids) { messages_ = db_.tasks_.messages(ids); }

double MemoryTransactions::random() { return std::uniform_real_distribution<double>(0.0, 1.0)(db_.dice_); }

}  // namespace rung
