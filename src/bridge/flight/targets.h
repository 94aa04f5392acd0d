// The tasks that wait to be claimed, separately for each target queue, so that none delays another. Each
// target has a window of claims and publishes under way (grows with each answer, reset after a loss), a pause
// after the broker refused a publish to it, and a rate for overdue tasks. Within a queue the oldest goes
// first, but tasks due now do not wait behind overdue ones. A target that does not answer while others do,
// and the targets of a connection that stalls, go into quarantine: one at a time is probed with a single
// message on a separate connection, unless it has publishes under way. It returns to normal once it answers.
// A target behind a closed gate (src/bridge/gates/gates.h) keeps its tasks until the gate opens. Thread: the
// loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/sidecar.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Flights;

// Tasks that wait, the oldest first.
struct LaterDue {
  bool operator()(const io::DueItem& a, const io::DueItem& b) const { return a.at > b.at; }
};
using Oldest = std::priority_queue<io::DueItem, std::vector<io::DueItem>, LaterDue>;

class Targets {
 public:
  // A target that has not answered for this long gets nothing more until it does.
  static constexpr Ms kSilent{2000};
  // How long to wait before trying a queue again that refused (it is full).
  static constexpr Ms kRefusedPause{5000};

  // `most`: the limit under way for one target. `first_window`: from BrokerLimits. What is taken from here
  // begins its claim in `flights`, if it still waits there.
  Targets(const Sidecar& sidecar, Flights& flights, std::size_t most, std::size_t first_window);

  // `overdue`: it goes out at the catch-up rate.
  void add(const io::DueItem& item, bool overdue);
  // Call after a time without publishing: tasks overdue by now go out at the catch-up rate.
  void sort_out(EpochMs now);
  // The target's gate may have closed or opened. What is overdue behind a gate that opens goes out at the
  // catch-up rate; after a breaker all that waits.
  void gate_changed(std::uint32_t queue, EpochMs now);
  bool is_closed(std::uint32_t queue) const;
  // Below 1 if a breaker of the queue has just closed: it lets more and more through.
  double ramp(std::uint32_t queue) const;
  // Keeps the oldest `most` tasks that wait for this target, and drops the others from memory.
  void keep_oldest(std::uint32_t queue, std::size_t most);
  // Calls `tell` for each target that has something under way, or is not to be forgotten for another reason.
  void each_in_use(BootMs now, const std::function<void(std::uint32_t)>& tell) const;
  // REQUIRES: it is not in use.
  void forget(std::uint32_t queue);
  // Takes the oldest task of a target whose gate is closed, as a breaker's probe. In quarantine it is the
  // target's probe as well. None while the target answers nothing.
  std::optional<io::DueItem> take_gate_probe(std::uint32_t queue, BootMs now);
  // Whether the target could take it: it answers.
  bool takes_gate_probe(std::uint32_t queue, BootMs now) const;
  // How many more tasks of a target could be sent now, beside those that wait here.
  std::size_t room_for(std::uint32_t queue, BootMs now) const;
  // The tasks of one target that wait.
  std::size_t waiting(std::uint32_t queue) const;
  // Takes up to `most` tasks that may go now, round-robin by queue.
  std::vector<io::DueItem> take(std::size_t most, BootMs now);
  // The oldest task of the next target in quarantine; none while another is being probed.
  std::optional<io::DueItem> take_probe(BootMs now);
  // Call each second. `publishing`: the broker accepts publishes. Detects publishes that are not answered:
  //   - A queue does not answer while others do: it goes into quarantine. Its unanswered publishes stay on
  //     their connection, because the queue has them and answers once it works again.
  //   - A connection answers nothing while publishes to several queues are under way: one silent queue may
  //     block the whole connection in the broker. The connection is dropped and its targets go into
  //     quarantine; probes find out which target is silent.
  //   - The only queue with publishes under way does not answer: it is only reported. It delays no other.
  // Reports the queues: a log line when the silence of one begins and ends, and the problem "silent_queues".
  void check(bool publishing);
  // Quarantines the targets that have had publishes under way without an answer for longer than `most`.
  void quarantine(BootMs now, Ms most);
  // Silence counts from now: no answers were possible until now.
  void begin_silence(BootMs now);

  // For Flights alone. A task is under way, to be claimed and published on this lane.
  PublishLane begin(std::uint32_t queue);
  // It has been published: silence counts from the first one without an answer.
  void sent(std::uint32_t queue, BootMs now);
  // The broker's answer to it: adjusts the window and the pause.
  void answered(std::uint32_t queue, PublishResult::How how, BootMs now);
  // It is no longer under way, published or not.
  void end(std::uint32_t queue);

  std::size_t waiting() const { return waiting_; }  // without those behind a closed gate
  std::size_t held() const { return held_; }        // those
  // For metrics: the queues with recent publishes.
  struct Summary {
    std::size_t window = 0;       // the sum of their windows
    std::size_t quarantined = 0;  // how many are in quarantine
  };
  Summary summary() const;
  bool empty() const { return waiting_ == 0; }
  // Drops all waiting tasks.
  void clear();

  // Call now and then: forgets targets that have been idle for a while.
  void tidy(BootMs now);

 private:
  struct Target {
    Oldest fresh, overdue;
    std::size_t under_way = 0;
    std::size_t window = 0;  // at() begins with the first window
    BootMs closed_until{0};
    std::size_t unanswered = 0;  // of those under way: sent to the broker
    BootMs heard_at{0};          // its last answer, or when the first of those under way was sent
    double tokens = 0;           // for overdue tasks
    BootMs filled_at{0};
    std::size_t may_go = 0;  // within one take()
    bool closed = false;     // its gate
    bool quarantined = false;
    std::optional<BootMs> reported;  // since when it does not answer
    BootMs probe_at{0};              // not before
    Ms probe_pause{0};               // before the probe after that

    bool waits() const { return !fresh.empty() || !overdue.empty(); }
    std::size_t waiting() const { return fresh.size() + overdue.size(); }
  };

  Target& at(std::uint32_t queue);
  bool is_shut(std::uint32_t queue) const;
  double catch_up(std::uint32_t queue) const;
  static bool is_silent(const Target& target, BootMs now, Ms most) {
    return target.unanswered > 0 && now - target.heard_at > most;
  }
  std::size_t& counter_of(const Target& target) { return target.closed ? held_ : waiting_; }
  std::size_t room(const Target& target, BootMs now) const;
  static void sort_out(Target& target, EpochMs now);
  void fill(std::uint32_t queue, Target& target, BootMs now);
  io::DueItem pop(Target& target, Oldest& from);
  std::optional<io::DueItem> take_oldest(Target& target);
  void begin_probe(std::uint32_t queue, BootMs now);
  std::size_t take_from(Target& target, std::size_t most, std::vector<io::DueItem>& out);
  void drop_stalled_connection(BootMs now);
  void report(BootMs now);

  const Sidecar& sidecar_;
  Flights& flights_;
  const std::size_t most_;
  const std::size_t first_window_;
  std::map<std::uint32_t, Target> targets_;
  std::optional<std::uint32_t> probing_;
  BootMs probing_since_{0};
  std::uint32_t turn_ = 0;  // the queue that goes first next time
  std::size_t waiting_ = 0, held_ = 0;
  Ms stall_timeout_;  // doubled after each stall, until a publish is confirmed
};

}  // namespace rung::bridge
