// The breakers of queues, as far as one instance has a part in them: which outcomes of deliveries count
// (GateWriter writes them to the database, where the state of each breaker is kept for all instances), and
// when to ask for probes. What the states mean for the flow is in Gates. Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/gates/gate_writer.h"
#include "src/bridge/gates/gates.h"
#include "src/core/base/db_clock.h"
#include "src/core/gates/breaker.h"
#include "src/core/machine/machine.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Breakers {
 public:
  struct Deps {
    DbClock& clock;
    Gates& gates;
    GateWriter& writer;
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
  // The states of these may have changed, by any instance.
  void gates_changed(const std::vector<std::string>& queues);
  // The answer to ask_for_probe(): 0 = none may go now.
  void granted(const std::string& queue, int probe);

  // By queue. Beyond kMostTotals those that the config does not name are together in "(other)".
  const std::map<std::string, Totals>& totals() const { return totals_; }
  static constexpr std::size_t kMostTotals = 500;

 private:
  // nullptr: no breaker is kept for it.
  const BreakerRules* rules(const std::string& queue) const;
  bool is_listed(const std::string& queue) const { return deps_.rules->queues().contains(queue); }
  Totals& totals_of(const std::string& queue);
  void tick();
  void look_after(const std::string& queue);
  void ask(const std::string& queue);
  // By a breaker, and by nothing else.
  bool is_closed_by_breaker(const std::string& queue) const;
  void note(const std::string& queue, const Breaker& breaker);

  const Deps deps_;
  std::map<std::string, Breaker::State> not_closed_;  // as logged
  std::map<std::string, Totals> totals_;
  std::set<std::string> asking_;             // for a probe
  std::map<std::string, BootMs> ask_again_;  // not before: a granted probe could not be sent
  io::Timer tick_;
};

}  // namespace rung::bridge
