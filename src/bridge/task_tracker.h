// The tasks that this instance works on, each once: those that are due and wait to be claimed, and those that
// it has claimed, until their row says what became of the publish. A shard is in use while a task of it is
// claimed (Shards::begin_use). Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // `targets` counts what is under way for each queue; `transitions` waits for what is published.
  TaskTracker(Shards& shards, Targets& targets, Transitions& transitions)
      : shards_(shards), targets_(targets), transitions_(transitions) {}

  bool contains(TaskId id) const { return tracked_.contains(id); }
  // The same, and for that queue: what waits may have been sent elsewhere since.
  bool contains(const io::DueItem& item) const;
  // Claimed, or about to be, and the row does not say yet what became of the publish.
  bool publishing(TaskId id) const;
  // Claimed, and the publish has no result yet.
  std::size_t unanswered() const { return unanswered_; }

  // It is due, and waits to be claimed. Where it waits for another queue already, only this one counts.
  void wait(const io::DueItem& item) { tracked_[item.id].queue = item.queue; }
  // Which of those that a claim is to be asked for still wait, and are ours. Call end_claim() with them.
  std::vector<io::DueItem> begin_claim(std::vector<io::DueItem> items);
  void end_claim(const std::vector<io::DueItem>& items);
  // The claim applied to it.
  void claimed(const ClaimedTask& claimed);
  // It did not apply to it, or failed.
  void not_claimed(const io::DueItem& item);

  // The publish has a result. untrack() follows once the row says so.
  void answered(const ClaimedTask& claimed);
  // A claimed task that is not published by us: its row stays as it is, and the janitor of whoever holds its
  // shard finds it.
  void release(const ClaimedTask& claimed);

  void untrack(TaskId id);             // one that waits
  void untrack(TaskId id, int shard);  // one that was claimed

 private:
  struct Tracked {
    std::uint32_t queue = 0;
    bool claimed = false;
  };

  Shards& shards_;
  Targets& targets_;
  Transitions& transitions_;
  std::unordered_map<TaskId, Tracked> tracked_;
  std::size_t unanswered_ = 0;
};

}  // namespace rung::bridge
