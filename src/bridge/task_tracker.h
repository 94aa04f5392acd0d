// The tasks that this instance works on, each once: those due that wait to be claimed, and those it has
// claimed, until the row records the result of the publish. A shard is in use while a task of it is claimed
// (Shards::begin_use). Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "src/bridge/claimed_task.h"
#include "src/bridge/shards.h"
#include "src/bridge/targets.h"
#include "src/bridge/transitions.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class TaskTracker {
 public:
  // `targets` counts tasks under way per queue; `transitions` waits for their publishes.
  TaskTracker(Shards& shards, Targets& targets, Transitions& transitions)
      : shards_(shards), targets_(targets), transitions_(transitions) {}

  bool contains(TaskId id) const { return tracked_.contains(id); }
  void each_queue(const std::function<void(std::uint32_t)>& tell) const {
    for (const auto& [id, tracked] : tracked_) tell(tracked.queue);
  }
  // The same, and for that queue: a waiting task may have been moved to another queue since.
  bool contains(const io::DueItem& item) const;
  // Claimed, or about to be, and the row does not record the result of the publish yet.
  bool publishing(TaskId id) const;
  // Claimed, and the database has that.
  bool claim_recorded(TaskId id) const;
  // Claimed, and the publish has no result yet.
  std::size_t unanswered() const { return unanswered_; }

  // The task is due and waits to be claimed. If it already waits for another queue, this one replaces it.
  void wait(const io::DueItem& item) { tracked_[item.id].queue = item.queue; }
  // Call before a claim: returns those that still wait and are ours. Call end_claim() with them.
  std::vector<io::DueItem> begin_claim(std::vector<io::DueItem> items);
  void end_claim(const std::vector<io::DueItem>& items);
  // The claim applied to the task.
  void claimed(const ClaimedTask& claimed);
  // The claim did not apply to the task, or failed.
  void not_claimed(const io::DueItem& item);

  // The publish has a result. untrack() follows once the row records it.
  void answered(const ClaimedTask& claimed);
  // A claimed task that we do not publish: its row stays as it is, and the janitor of its shard's owner finds
  // it.
  void release(const ClaimedTask& claimed);

  void untrack(TaskId id);             // a waiting task
  void untrack(TaskId id, int shard);  // a claimed task

 private:
  struct Tracked {
    std::uint32_t queue = 0;
    bool claimed = false;
    bool recorded = false;  // the claim is in the database
  };

  Shards& shards_;
  Targets& targets_;
  Transitions& transitions_;
  std::unordered_map<TaskId, Tracked> tracked_;
  std::size_t unanswered_ = 0;
};

}  // namespace rung::bridge
