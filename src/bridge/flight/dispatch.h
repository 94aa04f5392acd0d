// due -> claimed (recorded in the row, fenced by the lease) -> published -> confirmed or returned -> recorded
// in the row. Decides what is claimed and when: nothing while the broker is away or blocked (our outage costs
// no attempt), no more than there is room for, and tasks that are not due yet in few transactions, a little
// ahead, so that the database's time does not add to the lateness. Flights knows at which stage each task is,
// Targets keeps those that wait. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"

namespace rung::bridge {

// The fence (Broker::allow_publish_until) follows the leases: nothing is written to the broker after they
// have expired. It closes when leases are lost, and stays closed until every publish under way has its
// result: tasks claimed under a lost lease may still be in the publisher's queue. A publish that gets no
// answer has its connection dropped. Thread: the loop's.
class PublishFence {
 public:
  explicit PublishFence(const Sidecar& sidecar)
      : sidecar_(sidecar), timer_(sidecar.loop, [this] { give_up_unanswered(); }) {}

  void leases_lost();
  // Our leases allow publishing until `deadline`; 0 = not at all. Returns whether the fence is open now.
  bool extend(BootMs deadline);
  // Leases were lost, and some publishes under way have no result yet.
  bool is_closed() const { return closed_; }

 private:
  void allow_until(BootMs deadline);
  void give_up_unanswered();

  const Sidecar& sidecar_;
  bool closed_ = false;
  io::Timer timer_;
};

// Claims are fenced by the lease, and read the messages as far as they fit, the others when there is room. A
// task that was claimed a little ahead is held until it is due by the database's clock, never earlier. One
// whose claim's lease was lost is not published: another instance may have taken it over.
class Dispatch {
 public:
  using How = PublishResult::How;
  // How long before its due time a task is claimed. From then on a cancel is refused. On a busy machine one
  // claim in a hundred takes 100 ms (docs/decisions.md, Claim ahead).
  static constexpr Ms kAhead{250};
  static constexpr std::size_t kMostTasks = 500;  // in one job

  explicit Dispatch(const Sidecar& sidecar);

  // From the heap and the sweep. Skips tasks that are here already. Of a queue behind a closed gate it
  // keeps a few thousand; the sweep finds the others when the gate opens.
  void due(const std::vector<io::DueItem>& items);
  // Tasks that are claimed already: keeps them all.
  void due_again(const std::vector<io::DueItem>& items);
  // The gates of these may have changed.
  void gates_changed(const std::vector<std::string>& queues);
  // Whether the broker accepts publishes.
  void open(bool publishing);
  bool is_open() const { return open_; }
  // Results have arrived: there is room again.
  void pump();
  // Call each second.
  void tick();
  // Takes on nothing more; the work under way completes.
  void drain();
  // For when we hold no shard and publish nothing: releases claims whose messages have not been read yet, so
  // that their shards can be given back.
  void release_unfetched();
  // The task's row has changed: withdraws its held copy if the task has ended.
  void changed(const Task& task);
  // Tasks of these shards that became due before had no owner: they count as overdue.
  void shards_gained();

  const Flights& flights() const { return flights_; }
  bool idle() const { return flights_.under_way() == 0; }
  std::size_t ready() const { return targets_.waiting(); }  // due, and waiting to be claimed
  std::size_t held() const { return targets_.held(); }      // the same, behind a gate
  // Whether a gate has opened since the last call behind which tasks were left in the database.
  bool opened() { return std::exchange(opened_, false); }
  // Calls `tell` with the numbers of queues that are needed here.
  void each_queue(const std::function<void(std::uint32_t)>& tell) const;
  // The number belongs to another queue from now on. REQUIRES: each_queue() has not told it.
  void forget(std::uint32_t queue, const std::string& name);
  // A task of its queue that the sweep finds may have to wait in the database.
  bool is_held_back(const io::DueItem& item) const {
    return targets_.is_closed(item.queue) || targets_.is_full(item.queue);
  }
  // Tasks of this queue wait here, and one could be sent as a breaker's probe.
  bool can_probe(const std::string& queue) const;
  // Sends the oldest of them; false if there is none, or nothing may be sent now.
  bool send_probe(const std::string& queue, int probe);
  // The queues whose tasks wait for tokens.
  std::vector<std::string> limited() const { return targets_.limited(sidecar_.loop.clock().boot()); }
  Targets::Summary targets() const { return targets_.summary(); }

 private:
  // `again`: it was claimed before, and needs no token.
  void take_in(const io::DueItem& item, EpochMs now, bool again);
  void pump_soon(const std::vector<io::DueItem>& items, EpochMs now);
  void claim_next();
  void shut();
  bool can_send() const { return open_ && !draining_ && sidecar_.shards.any(); }
  std::size_t room() const;

  using Messages = std::vector<StoredMessage>;
  // REQUIRES: all are at Stage::claiming.
  void claim(std::vector<Taken> batch);
  Ms behind_gates(const io::DueItem& item, bool again) const;
  void claimed(const std::vector<Taken>& batch, Result<Claimed> result);
  void not_claimed(const Taken& taken);
  // Reads the messages of tasks that were claimed without them.
  void fetch();
  // Writes the short claims whose publishes are not confirmed yet, so that people see them.
  void write_short_claims();
  void publish(const std::vector<Flight*>& flights, const Messages& messages);
  EpochMs due_by() const;  // messages due by then may leave
  void hold(Flight& flight, MessagePtr message);
  void send_due();
  Outgoing outgoing_for(const Flight& flight, const Message& message) const;
  void send(Flight& flight, const Message& message);
  void reject(Flight& flight, const std::string& why);
  void conclude(Flight& flight, const PublishResult& result);
  void again(const Flight& flight, How how);
  void record(Event event);

  struct ShortClaims {
    BootMs at;
    std::vector<TaskId> ids;
  };
  const Sidecar& sidecar_;
  const std::size_t most_under_way_;  // tasks being claimed, or published without a result yet
  Targets targets_;
  Flights flights_;
  EpochMs able_since_{0};  // since then we can publish and hold our shards
  ClosedTimes unable_;     // when we could not publish
  EpochMs shut_at_{0};     // since then we cannot; 0: we can, or never could
  bool opened_ = false;    // a gate behind which tasks were left in the database
  bool open_ = false;
  bool draining_ = false;
  bool pump_posted_ = false;
  Linger linger_;    // tasks not due yet wait for others to join their claim
  io::Timer again_;  // a task waits for its rate limit or a pause

  std::deque<Flight*> unread_;                // those at Stage::unread
  std::deque<ShortClaims> short_;             // of the last kShortFor
  std::multimap<EpochMs, Flight*> held_;      // by due time
  io::Timer held_timer_;                      // fires when the first of them is due
  OncePerName exchanges_told_, queues_told_;  // where messages cannot be published as they should be
  double mean_body_bytes_ = 1024;             // recent
  std::size_t jobs_ = 0;                      // under way
};

}  // namespace rung::bridge
