// Claims tasks in the database, fenced by the lease, and reads their messages: with the claim as far as they
// fit, the others when there is room. Passes what it has read to the publisher. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "src/bridge/claimed_task.h"
#include "src/bridge/gates.h"
#include "src/bridge/horizon.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/task_publisher.h"
#include "src/bridge/task_tracker.h"
#include "src/core/policy.h"

namespace rung::bridge {

class Claims {
 public:
  // How long before its due time a task is claimed. From then on a cancel is refused.
  static constexpr Ms kAhead{100};
  static constexpr std::size_t kMostTasks = 500;                 // in one job
  static constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of bodies read in one job, approximate

  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    QueueNames& names;
    const Gates& gates;
    const RuleBookPtr& rules;
    Horizon& horizon;
    TaskTracker& tracker;
    TaskPublisher& publisher;
    std::function<void()> done;  // after each reply from the database
    // The task is not to be sent any more, or not yet. `probe`: as in claim().
    std::function<void(const io::DueItem& item, int probe)> not_claimed;
  };
  explicit Claims(Deps deps) : deps_(std::move(deps)) {}

  // REQUIRES: Targets counts `items` as under way.
  // `probe`: the number of the breaker's probe that the only item is; 0 = none.
  void claim(std::vector<io::DueItem> items, PublishLane lane, int probe = 0);
  // Reads the messages of tasks that were claimed without them.
  void fetch();
  bool has_unfetched() const { return !unfetched_.empty(); }
  // Releases claims whose messages have not been read: the owner of their shard publishes them under the same
  // attempt.
  void release_unfetched();
  void drain();

  std::size_t jobs() const { return jobs_; }    // under way
  std::size_t tasks() const { return tasks_; }  // in those claims

 private:
  using Messages = std::vector<StoredMessage>;
  struct Answer {
    std::vector<Decision> decisions;
    Messages messages;
  };
  void claimed(const std::vector<io::DueItem>& batch, PublishLane lane, int probe, Result<Answer> result);
  void fetched(const std::vector<ClaimedTask>& batch, const Result<Messages>& messages);

  const Deps deps_;
  std::deque<ClaimedTask> unfetched_;  // their bodies are still in the database: no room yet
  std::size_t jobs_ = 0;
  std::size_t tasks_ = 0;
  bool draining_ = false;
};

}  // namespace rung::bridge
