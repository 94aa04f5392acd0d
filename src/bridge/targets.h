// What waits to be claimed, a room for each target queue, so that none holds up another: each has a window of
// claims and publishes under way (grows with each answer, small again after a loss), a pause after the broker
// refused for it, and a rate for what is overdue. Within a queue the oldest goes first; what becomes due now
// does not wait behind what is overdue. Where a connection was held up, its targets are in quarantine: one at
// a time is asked by a probe, a single message on a connection of its own, and goes on as before once it
// answers. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "plugin/broker.h"
#include "src/io/due_heap.h"

namespace rung::bridge {

class Targets {
 public:
  // So late counts as overdue: it goes out at the catch-up rate.
  static constexpr Ms kOverdue{5000};
  // A target that has not answered for so long gets nothing further until it does.
  static constexpr Ms kSilent{2000};
  // A queue that refused (it is full) is asked again after this.
  static constexpr Ms kRefusedPause{5000};

  // `most`: under way for one target at most. `first_window`: BrokerLimits. `rate`: our share of the catch-up
  // rate of a queue, in tasks a second.
  Targets(std::size_t most, std::size_t first_window, std::function<double(std::uint32_t queue)> rate);

  // `overdue`: it goes out at the catch-up rate.
  void add(const io::DueItem& item, bool overdue);
  // After a time in which nothing could be published: what is overdue by now goes out at the catch-up rate.
  void sort_out(EpochMs now);
  // Up to `most` that may go now, their queues in turn. They count as under way.
  std::vector<io::DueItem> take(std::size_t most, BootMs now);
  // Of those in quarantine the one whose turn it is, with its oldest; none while another is being asked.
  std::optional<io::DueItem> take_probe(BootMs now);
  // Since when a probe has been without an answer.
  std::optional<BootMs> probing_since() const {
    return probing_ ? std::optional(probing_since_) : std::nullopt;
  }
  // How many have something under way that has had no answer for longer than `most`.
  std::size_t silent(BootMs now, Ms most) const;
  // Of all of them, those that have had no answer yet.
  std::size_t unanswered() const;
  // Their connection answers nothing: any of those may be the reason.
  void quarantine(BootMs now, Ms most);
  // Silence counts from now: nothing could be answered until now.
  void begin_silence(BootMs now);

  // One of those has been published: silence counts from the first without an answer.
  void sent(std::uint32_t queue, BootMs now);
  // The broker's answer to one of those: the window and the pause. end() comes on top.
  void answered(std::uint32_t queue, PublishResult::How how, BootMs now);
  // One of those is under way no longer, published or not.
  void end(std::uint32_t queue);

  std::size_t waiting() const { return waiting_; }
  // For metrics: of the queues that have had something to publish of late.
  struct Summary {
    std::size_t window = 0;       // the sum of their windows
    std::size_t quarantined = 0;  // how many are in quarantine
  };
  Summary summary() const;
  bool empty() const { return waiting_ == 0; }
  // Lets go of all that waits; `gone` is told of each.
  void clear(const std::function<void(TaskId)>& gone);

  // Call now and then: forgets targets that have been idle for a while.
  void tidy(BootMs now);

 private:
  struct Later {
    bool operator()(const io::DueItem& a, const io::DueItem& b) const { return a.at > b.at; }
  };
  using Oldest = std::priority_queue<io::DueItem, std::vector<io::DueItem>, Later>;
  struct Target {
    Oldest fresh, overdue;
    std::size_t under_way = 0;
    std::size_t window = 0;  // at() begins with the first window
    BootMs closed_until{0};
    std::size_t unanswered = 0;  // of those under way: with the broker
    BootMs heard_at{0};          // its last answer, or when the first of those under way left
    double tokens = 0;           // for what is overdue
    BootMs filled_at{0};
    std::size_t may_go = 0;  // within one take()
    bool quarantined = false;
    BootMs probe_at{0};  // not before
    Ms probe_pause{0};   // before the one after

    bool waits() const { return !fresh.empty() || !overdue.empty(); }
  };

  Target& at(std::uint32_t queue) {
    const auto [place, fresh] = targets_.try_emplace(queue);
    if (fresh) place->second.window = first_window_;
    return place->second;
  }
  static bool is_silent(const Target& target, BootMs now, Ms most) {
    return !target.quarantined && target.unanswered > 0 && now - target.heard_at > most;
  }
  std::size_t room(const Target& target, BootMs now) const;
  void fill(std::uint32_t queue, Target& target, BootMs now);
  std::size_t take_from(Target& target, std::size_t most, std::vector<io::DueItem>& out);

  const std::size_t most_;
  const std::size_t first_window_;
  const std::function<double(std::uint32_t)> rate_;
  std::map<std::uint32_t, Target> targets_;
  std::optional<std::uint32_t> probing_;
  BootMs probing_since_{0};
  std::uint32_t turn_ = 0;  // the queue that is asked first next time
  std::size_t waiting_ = 0;
};

}  // namespace rung::bridge
