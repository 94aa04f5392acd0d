// The breakers of queues, as far as one instance has a part in them: reports the outcomes of deliveries to
// the database, where the state of each breaker is kept for all instances, and asks for probes. What the
// states mean for the flow is in Gates. Queues that the config does not name are named by messages: how many
// of them have a breaker is bounded (Gates::kMostUnlisted). Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/gates.h"
#include "src/bridge/store_jobs.h"
#include "src/core/breaker.h"
#include "src/core/db_clock.h"
#include "src/core/machine.h"
#include "src/core/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Breakers {
 public:
  struct Deps {
    StoreJobs& jobs;
    DbClock& clock;
    Gates& gates;
    const RuleBookPtr& rules;  // replaced by a reload
    // The oldest task of the queue that waits may go, as this probe. False: there is none by now.
    std::function<bool(const std::string& queue, int probe)> send_probe;
    // Whether a task of the queue waits here that could be sent.
    std::function<bool(const std::string& queue)> can_probe;
  };
  struct Totals {
    std::int64_t opened = 0, closed = 0;  // seen by this instance
    std::int64_t probes = 0;              // sent by it
    bool operator==(const Totals&) const = default;
  };

  Breakers(io::Loop& loop, Deps deps);

  void start();
  void stop();
  // The broker has confirmed a delivery of the task.
  void published(const Task& task);
  void decided(const Decision& decision);
  // The task that was to be this probe is not to be sent any more: another one may go.
  void unsent(const std::string& queue, int probe);
  // The states may have changed.
  void gates_changed();

  // By queue. Beyond kMostTotals those that the config does not name are together in "(other)".
  const std::map<std::string, Totals>& totals() const { return totals_; }
  static constexpr std::size_t kMostTotals = 500;
  // Queues with outcomes that the database does not have yet: at most kMostPending that the config does not
  // name.
  std::size_t pending() const { return pending_.size(); }
  static constexpr std::size_t kMostPending = 2000;

 private:
  using Outcomes = std::vector<DeliveryOutcome>;

  // nullptr: no breaker is kept for it.
  const BreakerRules* rules(const std::string& queue) const;
  bool is_listed(const std::string& queue) const { return deps_.rules->queues().contains(queue); }
  bool make_room(const std::string& queue);
  Totals& totals_of(const std::string& queue);
  void forget_gone();
  Unanswered silence(const std::string& queue) const;
  void add(const std::string& queue, DeliveryOutcome outcome);
  void tick();
  void flush();
  void look_after(const std::string& queue, const GateState& state);
  bool may_ask(const std::string& queue) const;
  void ask_for_probe(const std::string& queue, const BreakerRules& rules);
  void change(const std::string& queue, Outcomes outcomes);
  void note(const GateState& state);

  const Deps deps_;
  io::Loop& loop_;
  std::map<std::string, Outcomes> pending_;
  std::map<std::string, Breaker::State> seen_;  // to log what changes
  std::map<std::string, Totals> totals_;
  std::set<std::string> busy_;               // a change is under way
  std::set<std::string> asking_;             // for a probe
  std::map<std::string, BootMs> ask_again_;  // not before: a granted probe could not be sent
  io::Timer tick_, flush_;
  bool urgent_ = false;  // a probe's outcome waits
};

}  // namespace rung::bridge
