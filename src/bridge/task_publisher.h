// Publishes claimed tasks whose messages are read, when they are due, and records the broker's answers. Does
// not publish a task whose claim's lease was lost: another instance may have taken it over.
// Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/bridge/claimed_task.h"
#include "src/bridge/delivery_proof.h"
#include "src/bridge/flow_counts.h"
#include "src/bridge/held_back.h"
#include "src/bridge/lateness.h"
#include "src/bridge/outbox.h"
#include "src/bridge/route_log.h"
#include "src/bridge/shards.h"
#include "src/bridge/stall_detector.h"
#include "src/bridge/targets.h"
#include "src/bridge/task_observer.h"
#include "src/bridge/task_tracker.h"
#include "src/bridge/tracer.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"
#include "src/core/policy.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class Breakers;

// Whether the claim is under our current lease. A lease that was lost, even if taken again, no longer covers
// it.
inline bool is_covered(const Shards& shards, const ClaimedTask& claimed) {
  return shards.epoch(claimed.task->shard) == claimed.task->epoch;
}

class TaskPublisher {
 public:
  using How = PublishResult::How;
  struct Deps {
    io::Loop& loop;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    DbClock& clock;
    const DeliveryProof& proof;
    const RuleBookPtr& rules;  // replaced by a reload
    TaskObserver& observer;
    Breakers& breakers;
    Targets& targets;
    TaskTracker& tracker;
    StallDetector& stalls;
    FlowCounts& counts;
    std::string prefix;  // of our exchanges
    Tracer* tracer;      // nullptr: traces are off
    // `lost` or `fenced`: unknown whether it is in the queue, or not sent. The owner untracks it.
    std::function<void(const ClaimedTask&, How)> unpublished;
  };

  explicit TaskPublisher(Deps deps);

  // `messages`: of these tasks, in any order; a missing one cannot be read. Flush the outbox afterwards.
  void publish(const std::vector<ClaimedTask>& tasks, const std::vector<StoredMessage>& messages);
  // The task's row has changed: withdraws its held-back copy if the task has ended.
  void changed(const Task& task);

  std::size_t body_bytes() const { return body_bytes_; }       // read, no result yet
  double mean_body_bytes() const { return mean_body_bytes_; }  // recent
  const Lateness& lateness() const { return lateness_; }

 private:
  Outgoing outgoing_for(const ClaimedTask& claimed, const Message& message) const;
  void send(ClaimedTask claimed, const Message& message);
  void release(const ClaimedTask& claimed);
  void published(const ClaimedTask& claimed, const PublishResult& result);
  void record(int shard, Event event);

  const Deps deps_;
  HeldBack held_back_;
  RouteLog route_log_;
  Lateness lateness_;
  std::size_t body_bytes_ = 0;
  double mean_body_bytes_ = 1024;
};

}  // namespace rung::bridge
