// due -> claimed (a row says so, fenced by the lease) -> published -> confirmed or returned -> the row says
// so. Claimed a little ahead, and held back until it is due, so that the database's time is not in the
// lateness. Nothing is claimed while the broker is away or blocked: an outage of ours costs no attempt.
// Bodies of what is claimed and not confirmed are bounded in bytes. Thread: the loop's.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/bridge/delivery_proof.h"
#include "src/bridge/gather.h"
#include "src/bridge/lateness.h"
#include "src/bridge/outbox.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/route_log.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/targets.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Dispatch {
 public:
  struct Parts {
    io::Loop& loop;
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    Outbox& outbox;
    DbClock& clock;
    QueueNames& names;
    const DeliveryProof& proof;
    std::function<RuleBookPtr()> rules;
    std::function<void(const io::DueItem&)> reschedule;  // into the heap, or left to the database
    std::function<void(const Decision&)> settled;        // a task changed: heap, parked copies
    std::function<void(PublishLane, std::string reason)> drop_publisher;  // Broker::drop_publishing
    std::string prefix;                                                   // of our exchanges
  };

  // So long before it is due a task is claimed. From then on a cancel is refused.
  static constexpr Ms kAhead{100};

  Dispatch(Parts parts, int most_under_way, BrokerLimits limits);

  // From the heap, and from the sweeps. What is in hand already is passed over.
  void due(const std::vector<io::DueItem>& items);
  // The broker can be published to, or not.
  void open(bool publishing);
  // Results have come: there is room again.
  void pump();
  // Call each second: looks for a queue that holds the others up.
  void tick();
  // Takes nothing further on; what is under way ends.
  void drain();

  bool in_hand(TaskId id) const { return in_hand_.contains(id); }
  // Claimed, or about to be, and the row does not say yet what became of the publish.
  bool publishing(TaskId id) const {
    const auto hand = in_hand_.find(id);
    return hand != in_hand_.end() && hand->second.claimed;
  }
  // Its row has changed: a copy that is held back until it is due is called back where the task has ended.
  void changed(const Task& task);
  // We hold no shard, and publish nothing: claims whose messages have not been read yet are let go, so that
  // their shards can be given back. Their next owner publishes them under the same attempt.
  void let_go_unfetched();
  // The same, and for that queue: what waits may have been sent elsewhere since.
  bool in_hand(const io::DueItem& item) const;
  bool in_use(int shard) const { return under_way_in_[static_cast<std::size_t>(shard)] > 0; }
  bool idle() const { return jobs_ == 0 && flights_ == 0; }
  std::size_t ready() const { return targets_.waiting(); }
  const Lateness& lateness() const { return lateness_; }
  Targets::Summary targets() const { return targets_.summary(); }
  // What became due in them before was nobody's: overdue.
  void shards_gained();

 private:
  struct Hand {
    std::uint32_t queue = 0;
    bool claimed = false;
  };
  // A task of ours on its way: from its claim to the publish's result.
  struct Flight {
    std::shared_ptr<const Task> task;  // as its claim left it
    std::uint32_t queue = 0;
    std::size_t bytes = 0;
    PublishLane lane = PublishLane::main;
    bool copy_may_be_out = false;  // an earlier publish of the attempt has had no answer
  };
  struct Early {  // claimed, with its message, and not due yet
    Flight flight;
    MessagePtr message;
  };
  using Messages = std::vector<StoredMessage>;
  struct Claimed {
    std::vector<Decision> decisions;
    Messages messages;
  };

  double catch_up(std::uint32_t queue) const;
  void claim_next();
  void probe();
  std::vector<io::DueItem> only_held(std::vector<io::DueItem> batch);
  void claim(std::vector<io::DueItem> items, PublishLane lane);
  void claimed(const std::vector<io::DueItem>& batch, PublishLane lane, Result<Claimed> result);
  void fetch();
  void fetched(const std::vector<Flight>& batch, const Result<Messages>& messages);
  void publish_all(const std::vector<Flight>& flights, const Messages& messages);
  Outgoing outgoing_for(const Flight& flight, const Message& message) const;
  void publish(Flight flight, const Message& message);
  EpochMs due_by_now() const;  // what is due by then may leave
  void hold_back(Flight flight, MessagePtr message);
  void release();
  void published(const Flight& flight, const PublishResult& result);
  void begin(const Flight& flight);
  void end(const Flight& flight);
  void settle(int shard, Event event);
  void put_down(TaskId id);
  void put_down(TaskId id, int shard);  // one that was claimed
  bool covered(const Flight& flight) const;
  void let_go(const Flight& flight);
  std::size_t room() const;

  const Parts parts_;
  const std::size_t most_under_way_;
  Targets targets_;
  std::unordered_map<TaskId, Hand> in_hand_;  // ready, being claimed, or under way: one at a time each
  std::array<int, kShards> under_way_in_{};
  std::deque<Flight> unfetched_;         // claimed, their bodies still in the database for want of room
  std::multimap<EpochMs, Early> early_;  // by their due times
  std::size_t flights_ = 0;              // claimed, no result yet
  std::size_t flight_bytes_ = 0;         // of the bodies of those that are fetched
  std::size_t jobs_ = 0;                 // claims and fetches with the database
  std::size_t claiming_rows_ = 0;
  RouteLog route_log_;
  double mean_body_ = 1024;  // bytes, of late: big bodies make small batches
  Ms patience_;              // with a connection that answers nothing
  EpochMs able_since_{0};    // from then on we could publish, and held the shards that we hold
  bool open_ = false;
  bool draining_ = false;
  bool pump_posted_ = false;
  Gather gather_;          // what is due only in a while waits for what comes soon after it
  bool pressing_ = false;  // something waits that is not so early
  io::Timer again_;        // something waits for its rate or its pause
  Lateness lateness_;
  io::Timer release_;  // the first of early_ is due
};

}  // namespace rung::bridge
