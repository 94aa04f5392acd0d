// Which queues may be published to: pauses by hand, holds by a consumer's retry-after, windows and breakers.
// Windows are in the config; of the others, what has changed is read from the database twice a second, and
// all of it every half minute. While the database cannot be read, what was read last applies; an end at a
// time takes effect by the database's clock. Before the first read nothing is known, and so it is after our
// leases were lost (the process may have been suspended), until the next read: publish nothing meanwhile.
//
//   deliveries that ended -> Breakers --+-> GateWriter -> rung_gates  --+
//   a consumer's retry-after -----------+   4 a second at most          +-> Gates -> Dispatch: closed or open
//   rung pause, resume ----------------------------------> rung_pauses -+   2 reads a second
//
// GateReader reads; KnownQueues has what is known of each queue; GateEnds says when a queue may open or close
// by itself. Gates decides by these three which queues are closed, and tells what has changed. What arrives
// costs work for the queues that it is about, however many others there are.
//
// Queues that the config does not name are named by messages. Of those, kMostUnlisted have a state; the gates
// of others, except windows and pauses, are not kept, until states that are no longer in use are deleted from
// the database (after a day). Times: by the database's clock. Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/gates/gate_ends.h"
#include "src/bridge/gates/gate_reader.h"
#include "src/bridge/gates/known_queues.h"
#include "src/core/base/db_clock.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Gates {
 public:
  using Names = GateReader::Names;
  static constexpr std::size_t kMostUnlisted = KnownQueues::kMostUnlisted;

  // Why a queue gets nothing: its gate in force.
  struct Closed {
    GateKind by = GateKind::pause;
    std::optional<EpochMs> until;  // none: not known
    std::string_view word;         // the state in the view retry_queues
    bool operator==(const Closed& other) const { return by == other.by && until == other.until; }
  };

  // known(), or what is known of these queues, may have changed.
  using Changed = std::function<void(const std::vector<std::string>& queues)>;
  // A reload replaces `rules`.
  Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules, Health& health,
        Changed changed);

  void start();
  void stop();
  // Our leases were lost: what we know may be old.
  void invalidate();
  // The database's clock was read, perhaps for the first time. What opens and closes by the clock is not
  // known before.
  void clock_measured();
  // This queue exists. Needed for queues that the config does not name, if a pattern or the defaults give
  // them a window.
  void see(const std::string& queue);
  // Nothing of that queue waits here any more: takes back see().
  void unsee(const std::string& queue);
  // This instance has written them.
  void arrived(const std::vector<GateState>& states);

  bool known() const { return reader_.known() && clocked_; }
  using ClosedQueues = std::map<std::string, Closed, std::less<>>;
  const ClosedQueues& all_closed() const { return closed_; }
  // nullptr: it gets messages.
  const Closed* why_closed(std::string_view queue) const;
  // Whether the state of this queue's gates is kept; see above.
  bool keeps(std::string_view queue) const { return queues_.keeps(queue); }
  // nullptr: as a queue is by default.
  const GateState* state(std::string_view queue) const { return queues_.state(queue); }
  // How long a task of the queue that was due at `due` has waited since because of the queue's gates. For a
  // queue with a rate, all of its lateness.
  Ms waited(std::string_view queue, EpochMs due) const;
  // How long the gate has been closed since `due`, a limit apart.
  Ms closed_since(std::string_view queue, EpochMs due) const { return queues_.closed_since(queue, due); }
  // The gate was closed at some time since `due`.
  bool was_closed(std::string_view queue, EpochMs due) const { return closed_since(queue, due) > Ms{0}; }

 private:
  bool is_listed(std::string_view queue) const { return rules_->queues().contains(queue); }
  void tick();
  void take(const GateReading& reading, const Names& written, bool first);
  void take(const GateState& state);
  void check_ends();
  void update(const std::string& queue);
  void update_all();
  void tell();
  void log_change(const std::string& queue, const KnownGates& known, const Closed* before,
                  const Closed* after) const;

  DbClock& clock_;
  const RuleBookPtr& rules_;
  const Changed changed_;
  GateReader reader_;
  KnownQueues queues_;
  GateEnds ends_;
  ClosedQueues closed_;
  std::map<const TimeWindow*, WindowNow> windows_;
  RuleBookPtr updated_for_;           // the rules that closed_ and windows_ are by
  std::vector<std::string> touched_;  // not told yet
  bool clocked_ = false;              // the database's clock is known, and all gates are judged by it
  io::Timer tick_;
};

}  // namespace rung::bridge
