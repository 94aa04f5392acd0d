// A task's way from its claim in the database to the broker's answer.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/targets.h"
#include "src/core/base/ids.h"
#include "src/core/base/time.h"
#include "src/core/gates/gates.h"
#include "src/io/loop.h"
#include "src/store/tasks.h"

namespace rung::bridge {

// Claims tasks in the database, fenced by the lease, and reads their messages: with the claim as far as they
// fit, the others when there is room. Then publishes them, and records the broker's answers. A task that was
// claimed a little ahead is held until it is due by the database's clock, never earlier. One whose claim's
// lease was lost is not published: another instance may have taken it over. Thread: the loop's.
class Publishing {
 public:
  using How = PublishResult::How;
  // How long before its due time a task is claimed. From then on a cancel is refused.
  static constexpr Ms kAhead{100};
  static constexpr std::size_t kMostTasks = 500;  // in one job
  static constexpr Ms kShortFor{1000};  // until a short claim (machine.h) is written to the task's row
  static constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of bodies read in one job, approximate

  // `unable`: when this instance could not publish.
  Publishing(const Sidecar& sidecar, const ClosedTimes& unable, Flights& flights, Targets& targets);

  // REQUIRES: all are at Stage::claiming.
  void claim(std::vector<Taken> batch);
  // Reads the messages of tasks that were claimed without them.
  void fetch();
  bool has_unfetched() const { return !unread_.empty(); }
  // Releases claims whose messages have not been read: the owner of their shard publishes them under the same
  // attempt.
  void release_unfetched();
  // Call each second: writes the short claims whose publishes are not confirmed yet, so that people see them.
  void tick();
  void drain();
  // The task's row has changed: withdraws its held copy if the task has ended.
  void changed(const Task& task);

  std::size_t jobs() const { return jobs_; }                   // under way
  double mean_body_bytes() const { return mean_body_bytes_; }  // recent

 private:
  using Messages = std::vector<StoredMessage>;
  Ms behind_gates(const io::DueItem& item, bool again) const;
  void claimed(const std::vector<Taken>& batch, Result<Claimed> result);
  void not_claimed(const Taken& taken);
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
  const ClosedTimes& unable_;
  Flights& flights_;
  Targets& targets_;
  std::deque<Flight*> unread_;                // those at Stage::unread
  std::deque<ShortClaims> short_;             // of the last kShortFor
  std::multimap<EpochMs, Flight*> held_;      // by due time
  io::Timer held_timer_;                      // fires when the first of them is due
  OncePerName exchanges_told_, queues_told_;  // where messages cannot be published as they should be
  double mean_body_bytes_ = 1024;
  std::size_t jobs_ = 0;
  bool draining_ = false;
};

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

}  // namespace rung::bridge
