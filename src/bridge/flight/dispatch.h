// due -> claimed (recorded in the row, fenced by the lease) -> published -> confirmed or returned -> recorded
// in the row. Decides what is claimed and when: nothing while the broker is away or blocked (our outage costs
// no attempt), no more than there is room for, and tasks that are not due yet in few transactions, a little
// ahead, so that the database's time does not add to the lateness. Flights knows at which stage each task is.
// Targets keeps those that wait, Publishing does the rest. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/publishing.h"
#include "src/bridge/flight/targets.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"

namespace rung::bridge {

class Dispatch {
 public:
  static constexpr Ms kAhead = Publishing::kAhead;

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
  // It does not: the fence is closed.
  void shut();
  bool is_open() const { return open_; }
  // Results have arrived: there is room again.
  void pump();
  // Call each second.
  void tick();
  // Takes on nothing more; the work under way completes.
  void drain();
  // For when we hold no shard and publish nothing: releases claims whose messages have not been read yet, so
  // that their shards can be given back.
  void release_unfetched() { publishing_.release_unfetched(); }
  // The task's row has changed.
  void changed(const Task& task) { publishing_.changed(task); }
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
  // Some queues have no number: their tasks wait in the database.
  void names_short(bool yes);
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
  bool can_send() const { return open_ && !draining_ && sidecar_.shards.any(); }
  std::size_t room() const;

  const Sidecar& sidecar_;
  const std::size_t most_under_way_;  // tasks being claimed, or published without a result yet
  Targets targets_;
  Flights flights_;
  Publishing publishing_;
  EpochMs able_since_{0};  // since then we can publish and hold our shards
  ClosedTimes unable_;     // when we could not publish
  EpochMs shut_at_{0};     // since then we cannot; 0: we can, or never could
  bool opened_ = false;    // a gate behind which tasks were left in the database
  bool open_ = false;
  bool draining_ = false;
  bool pump_posted_ = false;
  Linger linger_;    // tasks not due yet wait for others to join their claim
  io::Timer again_;  // a task waits for its rate limit or a pause
};

}  // namespace rung::bridge
