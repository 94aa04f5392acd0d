// due -> claimed (a row says so, fenced by the lease) -> published -> confirmed or returned -> the row says
// so. Nothing is claimed while the broker is away or blocked: an outage of ours costs no attempt. Thread: the
// loop's.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_set>
#include <vector>

#include "src/bridge/outbox.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_threads.h"
#include "src/bridge/transitions.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Dispatch {
 public:
  struct Parts {
    io::Loop& loop;
    StoreThreads& threads;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    DbClock& clock;
    std::function<RuleBookPtr()> rules;
    std::function<void(const io::DueItem&)> reschedule;  // into the heap, or left to the database
    std::function<void(const Decision&)> settled;        // a task changed: heap, parked copies
  };

  Dispatch(Parts parts, int most_under_way);

  // From the heap, and from the sweeps. What is in hand already is passed over.
  void due(const std::vector<io::DueItem>& items);
  // The broker can be published to, or not.
  void open(bool publishing);
  // Takes nothing further on; what is under way ends.
  void drain();

  bool in_hand(TaskId id) const { return in_hand_.contains(id); }
  bool in_use(int shard) const { return under_way_in_[static_cast<std::size_t>(shard)] > 0; }
  bool idle() const { return claiming_ == 0 && under_way_ == 0; }
  std::size_t ready() const { return ready_.size(); }
  // Forgets what is ready in shards that are no longer held; what is under way fails by its own fence.
  void shards_changed() { pump(); }

 private:
  struct Later {
    bool operator()(const io::DueItem& a, const io::DueItem& b) const { return a.at > b.at; }
  };
  struct Flight {
    Task task;
    EpochMs due;
  };

  void pump();
  std::vector<io::DueItem> take_batch(std::size_t most);
  void claim(const std::vector<io::DueItem>& batch);
  void claimed(const std::vector<io::DueItem>& batch, const Result<std::vector<Decision>>& decisions,
               const std::vector<std::pair<TaskId, MessagePtr>>& messages);
  void publish(const Task& task, const Message& message);
  void published(const Task& task, const PublishResult& result);
  void settle(Event event);
  void put_down(TaskId id) { in_hand_.erase(id); }
  std::size_t room() const;

  const Parts parts_;
  const std::size_t most_under_way_;
  std::priority_queue<io::DueItem, std::vector<io::DueItem>, Later> ready_;  // the oldest first
  std::unordered_set<TaskId> in_hand_;  // ready, being claimed, or under way: one at a time each
  std::array<int, kShards> under_way_in_{};
  std::size_t under_way_ = 0;  // claimed, no result yet
  std::size_t claiming_ = 0;   // jobs
  std::size_t claiming_rows_ = 0;
  double mean_body_ = 1024;  // bytes, of late: big bodies make small batches
  bool open_ = false;
  bool draining_ = false;
  bool pump_posted_ = false;
};

}  // namespace rung::bridge
