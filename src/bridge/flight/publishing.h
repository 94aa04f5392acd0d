// A task's way from its claim in the database to the broker's answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/transitions.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/horizon.h"
#include "src/bridge/flight/stall_detector.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/clock.h"
#include "src/core/base/ids.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"
#include "src/io/log.h"
#include "src/io/loop.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class TaskPublisher;

// What a task's way needs of the rest of the bridge: Dispatch and its parts share it.
struct FlightDeps {
  io::Loop& loop;
  StoreJobs& jobs;
  Shards& shards;
  Transitions& transitions;
  Outbox& outbox;
  Broker& broker;
  DbClock& clock;
  QueueNames& names;
  Health& health;
  Gates& gates;
  const DeliveryProof& proof;
  const RuleBookPtr& rules;  // replaced by a reload
  Horizon& horizon;
  TaskObserver& observer;
  FlowCounts& counts;
  std::string prefix;  // of our exchange names
  Tracer* tracer;      // nullptr: traces are off
  // Tasks that are kept in memory behind closed gates, of all queues together.
  std::size_t most_held = 50'000;
};

// Claims tasks in the database, fenced by the lease, and reads their messages: with the claim as far as they
// fit, the others when there is room. Passes what it has read to the publisher. Thread: the loop's.
class Claims {
 public:
  // How long before its due time a task is claimed. From then on a cancel is refused.
  static constexpr Ms kAhead{100};
  static constexpr std::size_t kMostTasks = 500;  // in one job
  static constexpr Ms kShortFor{1000};  // until a short claim (machine.h) is written to the task's row
  static constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of bodies read in one job, approximate

  struct Deps {
    const FlightDeps& flow;
    const ClosedTimes& unable;  // when this instance could not publish
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
  // Call each second: writes the short claims whose publishes are not confirmed yet, so that people see them.
  void tick();
  void drain();

  std::size_t jobs() const { return jobs_; }  // under way

 private:
  using Messages = std::vector<StoredMessage>;
  // What is claimed, and how long it has waited behind gates since it was due.
  struct Batch {
    std::vector<io::DueItem> items;
    std::vector<Ms> behind_gates;  // of each
  };
  Ms behind_gates(const io::DueItem& item, const Flight& flight) const;
  void claimed(const Batch& batch, Result<Claimed> result);
  void not_claimed(const io::DueItem& item);
  void fetched(const std::vector<Flight*>& batch, const Result<Messages>& messages);

  const Deps deps_;
  struct ShortClaims {
    BootMs at;
    std::vector<TaskId> ids;
  };
  std::deque<Flight*> unread_;     // those at Stage::unread
  std::deque<ShortClaims> short_;  // of the last kShortFor
  std::size_t jobs_ = 0;
  bool draining_ = false;
};

// Logs exchanges and queues where messages can't be published, at most one line a minute per name. Bounded,
// because names come from messages. Thread: the loop's.
class RouteLog {
 public:
  explicit RouteLog(const Clock& clock) : clock_(clock) {}

  void exchange_refused(const std::string& exchange, const std::string& reason) {
    if (due(exchange))
      log::warn("exchange refuses messages: their attempts fail",
                {{"exchange", exchange}, {"reason", reason}});
  }
  // Once for each queue.
  void routing_key_lost(const std::string& queue, const std::string& reason) {
    if (!queues_.is_news(queue)) return;
    log::warn("retries to a queue lose their routing key: binding refused",
              {{"queue", queue}, {"reason", reason}});
  }
  // Exchanges that are remembered.
  std::size_t size() const { return said_.size(); }
  static constexpr std::size_t kMostExchanges = 1000;

 private:
  bool due(const std::string& name) {
    constexpr Ms kEvery{60'000};
    const BootMs now = clock_.boot();
    const auto known = said_.find(name);
    if (known != said_.end() && now - known->second < kEvery) return false;
    if (said_.size() >= kMostExchanges) said_.clear();
    said_[name] = now;
    return true;
  }

  const Clock& clock_;
  std::unordered_map<std::string, BootMs> said_;
  OncePerName queues_;
};

// Whether the claim is under our current lease. A lease that was lost, even if taken again, no longer covers
// it.
inline bool is_covered(const Shards& shards, const Task& claimed) {
  return shards.epoch(claimed.shard) == claimed.epoch;
}

// Publishes claimed tasks whose messages are read, and records the broker's answers. A task that was claimed
// a little ahead is held until it is due by the database's clock, never earlier. One whose claim's lease was
// lost is not published: another instance may have taken it over. Thread: the loop's.
class TaskPublisher {
 public:
  using How = PublishResult::How;
  struct Deps {
    const FlightDeps& flow;
    Flights& flights;
    StallDetector& stalls;
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
