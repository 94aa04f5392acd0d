// due -> claimed (a row says so, fenced by the lease) -> published -> confirmed or returned -> the row says
// so. Decides what is claimed and when: nothing while the broker is away or blocked (an outage of ours costs
// no attempt), no more than there is room for, and what is due only in a while in few transactions. The steps
// stand in files of their own: targets (what waits), claims, task_publisher, held_back (claimed a little
// ahead, so that the database's time is not in the lateness), stall_detector; task_tracker knows who is in
// which step. Thread: the loop's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/bridge/claims.h"
#include "src/bridge/linger.h"
#include "src/bridge/stall_detector.h"
#include "src/bridge/targets.h"
#include "src/bridge/task_publisher.h"
#include "src/bridge/task_tracker.h"

namespace rung::bridge {

class Dispatch {
 public:
  struct Deps {
    io::Loop& loop;
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    Broker& broker;
    DbClock& clock;
    QueueNames& names;
    const DeliveryProof& proof;
    const RuleBookPtr& rules;  // replaced by a reload
    Horizon& horizon;
    TaskObserver& observer;
    std::string prefix;  // of our exchanges
  };

  static constexpr Ms kAhead = Claims::kAhead;

  // `most_under_way`: tasks that are being claimed, or published without a result.
  Dispatch(Deps deps, int most_under_way, BrokerLimits limits);

  // From the heap, and from the sweeps. What is tracked already is passed over.
  void due(const std::vector<io::DueItem>& items);
  // The broker can be published to, or not.
  void open(bool publishing);
  // Results have come: there is room again.
  void pump();
  // Call each second.
  void tick();
  // Takes nothing further on; what is under way ends.
  void drain();
  // We hold no shard, and publish nothing: claims whose messages have not been read yet are released, so that
  // their shards can be given back.
  void release_unfetched() { claims_.release_unfetched(); }
  // Its row has changed.
  void changed(const Task& task) { publisher_.changed(task); }
  // What became due in them before was nobody's: overdue.
  void shards_gained();

  const TaskTracker& tracker() const { return tracker_; }
  bool idle() const { return claims_.jobs() == 0 && tracker_.unanswered() == 0; }
  std::size_t ready() const { return targets_.waiting(); }  // due, and waiting to be claimed
  const Lateness& lateness() const { return publisher_.lateness(); }
  Targets::Summary targets() const { return targets_.summary(); }

 private:
  double catch_up(std::uint32_t queue) const;
  void probe();
  void claim_next();
  void unpublished(const ClaimedTask& claimed, PublishResult::How how);
  std::size_t room() const;

  const Deps deps_;
  const std::size_t most_under_way_;
  Targets targets_;
  TaskTracker tracker_;
  StallDetector stalls_;
  TaskPublisher publisher_;
  Claims claims_;
  EpochMs able_since_{0};  // from then on we could publish, and held the shards that we hold
  bool open_ = false;
  bool draining_ = false;
  bool pump_posted_ = false;
  Linger linger_;    // what is due only in a while waits for what comes soon after it
  io::Timer again_;  // something waits for its rate or its pause
};

}  // namespace rung::bridge
