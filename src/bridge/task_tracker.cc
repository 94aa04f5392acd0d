#include "src/bridge/task_tracker.h"

namespace rung::bridge {

bool TaskTracker::contains(const io::DueItem& item) const {
  const auto it = tracked_.find(item.id);
  return it != tracked_.end() && (it->second.claimed || it->second.queue == item.queue);
}

bool TaskTracker::publishing(TaskId id) const {
  const auto it = tracked_.find(id);
  return it != tracked_.end() && it->second.claimed;
}

bool TaskTracker::claim_recorded(TaskId id) const {
  const auto it = tracked_.find(id);
  return it != tracked_.end() && it->second.recorded;
}

std::vector<io::DueItem> TaskTracker::begin_claim(std::vector<io::DueItem> items) {
  std::erase_if(items, [this](const io::DueItem& item) {
    const auto it = tracked_.find(item.id);
    if (it == tracked_.end() || it->second.claimed || it->second.queue != item.queue) {
      targets_.end(item.queue);  // moved to another queue while it waited here
      return true;
    }
    it->second.claimed = true;
    if (shards_.held(item.shard)) return false;
    not_claimed(item);  // another instance owns it by now: its heap or sweep has it
    return true;
  });
  for (const io::DueItem& item : items) shards_.begin_use(item.shard);
  return items;
}

void TaskTracker::end_claim(const std::vector<io::DueItem>& items) {
  for (const io::DueItem& item : items) shards_.end_use(item.shard);
}

void TaskTracker::claimed(const ClaimedTask& claimed) {
  ++unanswered_;
  tracked_[claimed.task->id].recorded = true;
  shards_.begin_use(claimed.task->shard);
}

void TaskTracker::not_claimed(const io::DueItem& item) {
  targets_.end(item.queue);
  untrack(item.id);
}

void TaskTracker::answered(const ClaimedTask& claimed) {
  --unanswered_;
  targets_.end(claimed.queue);
}

void TaskTracker::release(const ClaimedTask& claimed) {
  answered(claimed);
  untrack(claimed.task->id, claimed.task->shard);
}

void TaskTracker::untrack(TaskId id) {
  tracked_.erase(id);
  transitions_.published(id);
}

void TaskTracker::untrack(TaskId id, int shard) {
  shards_.end_use(shard);
  untrack(id);
}

}  // namespace rung::bridge
