// Publishes claimed tasks whose messages are read, and records the broker's answers. A task that was claimed
// a little ahead is held until it is due by the database's clock, never earlier. One whose claim's lease was
// lost is not published: another instance may have taken it over. Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/bridge/delivery_proof.h"
#include "src/bridge/flights.h"
#include "src/bridge/flow_counts.h"
#include "src/bridge/lateness.h"
#include "src/bridge/outbox.h"
#include "src/bridge/route_log.h"
#include "src/bridge/shards.h"
#include "src/bridge/stall_detector.h"
#include "src/bridge/task_observer.h"
#include "src/bridge/tracer.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"
#include "src/core/policy.h"
#include "src/io/loop.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class Breakers;

// Whether the claim is under our current lease. A lease that was lost, even if taken again, no longer covers
// it.
inline bool is_covered(const Shards& shards, const Task& claimed) {
  return shards.epoch(claimed.shard) == claimed.epoch;
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
    Flights& flights;
    StallDetector& stalls;
    FlowCounts& counts;
    std::string prefix;  // of our exchanges
    Tracer* tracer;      // nullptr: traces are off
    // `lost` or `fenced`: unknown whether it is in the queue, or not sent. The owner ends the flight.
    std::function<void(const Flight&, How)> unpublished;
  };

  explicit TaskPublisher(Deps deps);

  // `messages`: of these tasks, in any order; a missing one cannot be read. Flush the outbox afterwards.
  void publish(const std::vector<Flight*>& flights, const std::vector<StoredMessage>& messages);
  // The task's row has changed: withdraws its held copy if the task has ended.
  void changed(const Task& task);

  double mean_body_bytes() const { return mean_body_bytes_; }  // recent
  const Lateness& lateness() const { return lateness_; }

 private:
  EpochMs due_by() const;  // messages due by then may leave
  void hold(Flight& flight, MessagePtr message);
  void send_due();
  Outgoing outgoing_for(const Flight& flight, const Message& message) const;
  void send(Flight& flight, const Message& message);
  void reject(Flight& flight, const std::string& why);
  void published(Flight& flight, const PublishResult& result);
  void conclude(Flight& flight, const PublishResult& result);
  void record(Event event);

  const Deps deps_;
  std::multimap<EpochMs, Flight*> held_;  // by due time
  io::Timer held_timer_;                  // fires when the first of them is due
  RouteLog route_log_;
  Lateness lateness_;
  double mean_body_bytes_ = 1024;
};

}  // namespace rung::bridge
