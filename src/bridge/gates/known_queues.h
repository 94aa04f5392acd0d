// What this instance knows of each queue that gates may hold back: its latest pause, the state of its gates,
// when these closed it, and whether tasks of it wait here. A queue of which none of this is known has no
// entry. Of queues that the config does not name, kMostUnlisted have a state: then keeps() is false for
// others, so that GateWriter creates no more of them. Thread: the loop's. Times: by the database's clock.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/bridge/gates/gate_reader.h"
#include "src/core/base/db_clock.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"

namespace rung::bridge {

class KnownQueues {
 public:
  static constexpr std::size_t kMostUnlisted = 1000;

  struct Queue : KnownGates {
    bool seen = false;  // see()
  };
  using Queues = std::map<std::string, Queue, std::less<>>;

  // A reload replaces `rules`; call reloaded() then.
  KnownQueues(const DbClock& clock, const RuleBookPtr& rules) : clock_(clock), rules_(rules) {}

  // Of these four: whether it says something new.
  bool see(const std::string& queue);
  bool unsee(const std::string& queue);
  bool take(const Pause& pause);
  bool take(const GateState& state);
  // REQUIRES: the reading is of all. Forgets the pauses that it does not have, and the states, except those
  // in `written`. Returns the queues of these states.
  std::vector<std::string> forget_all_but(const GateReading& reading, const GateReader::Names& written);
  // Does nothing if more is known of the queue than when it was closed.
  void forget_if_unused(const std::string& queue);
  void reloaded();

  const Queues& all() const { return queues_; }
  // One that is not in all(): as a queue is by default. Valid until the next change.
  const Queue& of(std::string_view queue) const;
  // nullptr: as a queue is by default.
  const GateState* state(std::string_view queue) const;
  // Whether the state of this queue's gates is kept, if it has none yet.
  bool keeps(std::string_view queue) const;
  // For how long gates have closed the queue since `due`.
  Ms closed_since(std::string_view queue, EpochMs due) const;

 private:
  bool is_listed(std::string_view queue) const { return rules_->queues().contains(queue); }

  const DbClock& clock_;
  const RuleBookPtr& rules_;
  Queues queues_;
  std::set<std::string> damaged_;  // logged
  std::size_t unlisted_ = 0;       // queues with a state that the config does not name
  bool told_of_many_ = false;      // that there are too many
};

}  // namespace rung::bridge
