// Which queues may be published to: pauses by hand, holds by a consumer's retry-after, windows and breakers.
// Windows are in the config; of the others, what has changed is read from the database twice a second, and
// all of it every half minute, because a row that was deleted is not among the changes. While the database
// cannot be read, what was read last applies; an end at a time takes effect by the database's clock. Before
// the first read nothing is known, and so it is after our leases were lost (the process may have been
// suspended), until a read that began later has ended: publish nothing meanwhile.
//
//   deliveries that ended -> Breakers --+-> GateWriter -> rung_gates  --+
//   a consumer's retry-after -----------+   4 a second at most          +-> Gates -> Dispatch: closed or open
//   rung pause, resume ----------------------------------> rung_pauses -+   2 reads a second
//
// One book has what is known of each queue. What arrives costs work for the queues that it is about, however
// many others there are.
//
// Queues that the config does not name are named by messages. Of those, kMostUnlisted have a state; the gates
// of others, except windows and pauses, are not kept, until states that are no longer in use are deleted from
// the database (after a day). Times: by the database's clock. Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/base/store_jobs.h"
#include "src/core/base/db_clock.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Gates {
 public:
  static constexpr std::size_t kMostUnlisted = 1000;

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

  bool known() const { return !unknown_since_ && clocked_; }
  void each_closed(const std::function<void(const std::string& queue, const Closed& why)>& tell) const;
  // nullptr: it gets messages.
  const Closed* why_closed(std::string_view queue) const;
  // Whether the state of this queue's gates is kept; see above.
  bool keeps(std::string_view queue) const;
  // nullptr: as a queue is by default.
  const GateState* state(std::string_view queue) const;
  // How long a task of the queue that was due at `due` has waited since because of the queue's gates. For a
  // queue with a rate, all of its lateness.
  Ms waited(std::string_view queue, EpochMs due) const;
  // How long the gate has been closed since `due`, a rate apart.
  Ms closed_since(std::string_view queue, EpochMs due) const;
  // The gate was closed at some time since `due`.
  bool was_closed(std::string_view queue, EpochMs due) const { return closed_since(queue, due) > Ms{0}; }

 private:
  // A queue of which none of this is known has no entry.
  struct Entry : KnownGates {
    bool seen = false;            // see()
    std::optional<EpochMs> next;  // when it may open or close by itself: in by_time_
    std::optional<Closed> closed;
  };
  using Book = std::map<std::string, Entry, std::less<>>;
  struct Reading {
    EpochMs at;                // before it was read: by DbClock::now(), never ahead of the database
    bool all = false;          // else what has changed
    bool states_read = false;  // not if the config has no gates
    std::vector<Pause> pauses;
    std::vector<GateState> states;
  };

  bool is_listed(std::string_view queue) const { return rules_->queues().contains(queue); }
  const Entry* find(std::string_view queue) const;
  void tick();
  void check_health();
  void read();
  void read_done(const Reading& reading, bool fresh);
  void take(const Pause& pause);
  void take(const GateState& state);
  void forget_all_but(const Reading& reading);
  void check_ends();
  void start_timer();
  void update(const std::string& queue);
  void update_all();
  void tell();
  static void log_change(const std::string& queue, const Entry& known, const std::optional<Closed>& after);

  StoreJobs& jobs_;
  DbClock& clock_;
  const RuleBookPtr& rules_;
  Health& health_;
  const Changed changed_;
  Book book_;
  std::set<std::pair<EpochMs, std::string>> by_time_;  // Entry::next
  std::map<const TimeWindow*, WindowNow> windows_;
  RuleBookPtr updated_for_;           // the rules that book_ and windows_ are by
  std::vector<std::string> touched_;  // not told yet
  bool clocked_ = false;              // the database's clock is known, and all gates are judged by it
  std::set<std::string> damaged_;     // logged
  std::size_t unlisted_ = 0;          // queues with a state that the config does not name
  bool told_of_many_ = false;         // that there are too many

  std::optional<BootMs> unknown_since_ = BootMs{0};  // none: a read has ended
  bool reading_ = false;                             // one at a time
  int generation_ = 0;  // a read that began before the latest says nothing about now
  EpochMs read_at_;
  BootMs read_all_at_{0};
  bool read_states_ = false;                    // all of them, once
  std::set<std::string, std::less<>> written_;  // by us, since the read under way began
  io::Timer tick_, ends_;
};

}  // namespace rung::bridge
