#include <algorithm>
#include <numeric>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/store/task_writer.h"

namespace rung {

IntakeWriter::IntakeWriter(Tables& tables, const CauseBook& book, std::span<const NewTask> tasks)
    : tables_(tables), tasks_(tasks), texts_(book), rows_(tables.intake(tasks)) {
  for (const NewTask& n : tasks) {
    if (const auto failure = CauseChanges::failure_of(n)) texts_.prepare(failure->error);
  }
  order_.resize(tasks.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](std::size_t a, std::size_t b) { return tasks_[a].task.id < tasks_[b].task.id; });
}

bool IntakeWriter::guard_suffices(const Fence& fence) const {
  const auto fenced = [&](const NewTask& n) {
    return std::ranges::find(fence.leases, n.task.shard, &Lease::shard) != fence.leases.end();
  };
  return !fence.by_hand && fence.node != 0 && std::ranges::all_of(tasks_, fenced) && !too_large_with_key();
}

std::vector<Inserted> IntakeWriter::run(const std::vector<Lease>& held, const Fence& fence, bool look) {
  by_hand_ = fence.by_hand;
  results_.assign(tasks_.size(), {});
  for (std::size_t i = 0; i < tasks_.size(); ++i) results_[i].id = tasks_[i].task.id;
  here_.clear();
  taken_.clear();
  by_key_.clear();
  // A task whose lease is not held is not written, so no duplicate key shows that an earlier try wrote it.
  const auto all_held = [&] {
    return std::ranges::all_of(tasks_, [&](const NewTask& n) { return is_held(n, held); });
  };
  if (look || too_large_with_key() || !all_held()) {
    find_ids();
    find_keys();
  }
  std::vector<std::size_t> fresh;
  std::vector<TaskId> to_free;
  std::unordered_map<std::string, TaskId> in_batch;
  for (const std::size_t i : order_) {
    if (sort_out(i, held, in_batch, to_free)) fresh.push_back(i);
  }
  free_keys(std::move(to_free));
  write(fresh, fence.node);
  return results_;
}

bool IntakeWriter::is_held(const NewTask& n, const std::vector<Lease>& held) const {
  return by_hand_ || planted(Bug::no_fence_on_insert) ||
         std::ranges::find(held, n.task.shard, &Lease::shard) != held.end();
}

// A task too large to write causes no duplicate key error, which would show that it is already stored, as a
// row without the body.
bool IntakeWriter::too_large_with_key() const {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (!tasks_[i].intake_key.empty() && rows_->is_too_large(i)) return true;
  }
  return false;
}

// Finds the rows that an earlier call wrote before its answer was lost.
void IntakeWriter::find_ids() {
  for (const IntakeRows::SameId& row : rows_->find_ids()) {
    const auto n = std::ranges::find(tasks_, row.id, [](const NewTask& t) { return t.task.id; });
    // The queue may have changed since, by a failure or by a person.
    const bool ours = row.created_at == n->task.created_at && row.message_id == n->task.message_id &&
                      row.body == n->message->body;
    (ours ? here_ : taken_).insert(row.id);
  }
}

void IntakeWriter::find_keys() {
  for (IntakeRows::SameKey& row : rows_->find_keys()) {
    by_key_[std::move(row.key)] = {row.id, is_over(row.state, row.kind, row.attempt), row.attempt,
                                   row.created_at};
  }
}

bool IntakeWriter::sort_out(std::size_t i, const std::vector<Lease>& held,
                            std::unordered_map<std::string, TaskId>& in_batch, std::vector<TaskId>& to_free) {
  const NewTask& n = tasks_[i];
  Inserted& result = results_[i];
  if (here_.contains(n.task.id)) return false;  // inserted, by an earlier try
  if (taken_.contains(n.task.id)) {
    result.how = Inserted::How::id_taken;
    return false;
  }
  const std::string key = intake_key_of(n);
  const auto old = key.empty() ? by_key_.end() : by_key_.find(key);
  const bool frees =
      old != by_key_.end() && gives_up_key(old->second.over, old->second.attempt, old->second.created_at, n);
  if (old != by_key_.end() && !frees) {
    result = {Inserted::How::duplicate, old->second.id};
    return false;
  }
  if (const auto twin = in_batch.find(key); !key.empty() && twin != in_batch.end()) {
    result = {Inserted::How::duplicate, twin->second};
    return false;
  }
  if (rows_->is_too_large(i)) {
    result.how = Inserted::How::too_large;
    return false;
  }
  if (!is_held(n, held)) {
    result.how = Inserted::How::not_held;
    return false;
  }
  if (!key.empty()) in_batch[key] = n.task.id;
  if (frees) to_free.push_back(old->second.id);
  return true;
}

void IntakeWriter::free_keys(std::vector<TaskId> to_free) {
  if (to_free.empty()) return;
  std::sort(to_free.begin(), to_free.end());
  std::vector<TaskId> open;
  for (const auto& [key, old] : by_key_) {
    if (!old.over && std::ranges::binary_search(to_free, old.id)) open.push_back(old.id);
  }
  std::sort(open.begin(), open.end());
  if (rows_->free_keys(to_free, open) != static_cast<std::int64_t>(to_free.size()))
    throw Again{"a finished task was reopened"};
}

void IntakeWriter::write(const std::vector<std::size_t>& fresh, int node) {
  changes_.emplace(texts_);
  std::vector<std::string> causes(tasks_.size());  // "" = it has not failed
  EpochMs newest;
  for (const std::size_t i : fresh) {
    const NewTask& n = tasks_[i];
    causes[i] = changes_->of(n);
    changes_->inserted(n, causes[i]);
    newest = std::max(newest, n.task.created_at);
  }
  rows_->insert(fresh, causes);
  tables_.write_causes(*changes_, node, newest);
}

Inserted insert_child(Tables& tables, const CauseBook& book, const NewTask& child) {
  return IntakeWriter(tables, book, {&child, 1}).run({}, Fence{0, {}, true}, true).front();
}

}  // namespace rung
