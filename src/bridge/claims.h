// Claims tasks in the database, fenced by the lease, and reads their messages: with the claim as far as they
// fit, the others when there is room. Passes what it has read to the publisher. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "src/bridge/flights.h"
#include "src/bridge/gates.h"
#include "src/bridge/horizon.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/task_publisher.h"
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
    Flights& flights;
    TaskPublisher& publisher;
    std::function<void()> done;  // after each reply from the database
    // A task of the queue is not to be sent any more, or not yet: what it had is free.
    std::function<void(std::uint32_t queue, const Permit& permit)> unused;
  };
  explicit Claims(Deps deps) : deps_(std::move(deps)) {}

  // REQUIRES: all are at Stage::claiming.
  void claim(std::vector<io::DueItem> items);
  // Reads the messages of tasks that were claimed without them.
  void fetch();
  bool has_unfetched() const { return !unread_.empty(); }
  // Releases claims whose messages have not been read: the owner of their shard publishes them under the same
  // attempt.
  void release_unfetched();
  void drain();

  std::size_t jobs() const { return jobs_; }  // under way

 private:
  using Messages = std::vector<StoredMessage>;
  struct Answer {
    std::vector<Decision> decisions;
    Messages messages;
  };
  void claimed(const std::vector<io::DueItem>& batch, Result<Answer> result);
  void not_claimed(const io::DueItem& item);
  void fetched(const std::vector<Flight*>& batch, const Result<Messages>& messages);

  const Deps deps_;
  std::deque<Flight*> unread_;  // those at Stage::unread
  std::size_t jobs_ = 0;
  bool draining_ = false;
};

}  // namespace rung::bridge
