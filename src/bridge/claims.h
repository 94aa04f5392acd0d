// Claims tasks with the database, fenced by the lease, and reads their messages: those that fit at once with
// the claim, the others when there is room. What is read goes to the publisher. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "src/bridge/claimed_task.h"
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
  // So long before it is due a task is claimed. From then on a cancel is refused.
  static constexpr Ms kAhead{100};
  static constexpr std::size_t kMostTasks = 500;                 // in one job
  static constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of bodies read in one job, about

  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    QueueNames& names;
    const RuleBookPtr& rules;
    Horizon& horizon;
    TaskTracker& tracker;
    TaskPublisher& publisher;
    std::function<void()> done;  // after each answer of the database
  };
  explicit Claims(Deps deps) : deps_(std::move(deps)) {}

  // REQUIRES: `items` count as under way in Targets.
  void claim(std::vector<io::DueItem> items, PublishLane lane);
  // Reads messages of what was claimed without them.
  void fetch();
  bool has_unfetched() const { return !unfetched_.empty(); }
  // Gives claims up whose messages have not been read: whoever holds their shards publishes them under the
  // same attempt.
  void release_unfetched();
  void drain();

  std::size_t jobs() const { return jobs_; }    // with the database
  std::size_t tasks() const { return tasks_; }  // that claims under way are about

 private:
  using Messages = std::vector<StoredMessage>;
  struct Answer {
    std::vector<Decision> decisions;
    Messages messages;
  };
  void claimed(const std::vector<io::DueItem>& batch, PublishLane lane, Result<Answer> result);
  void fetched(const std::vector<ClaimedTask>& batch, const Result<Messages>& messages);

  const Deps deps_;
  std::deque<ClaimedTask> unfetched_;  // their bodies are still in the database, for want of room
  std::size_t jobs_ = 0;
  std::size_t tasks_ = 0;
  bool draining_ = false;
};

}  // namespace rung::bridge
