// Which queues may be published to, why not, and what this instance has to say about it. One book has what is
// known of each queue: pauses by hand, holds by a consumer's retry-after, windows, breakers.
//
//   deliveries that ended --------+-> Note -> rung_gates --+
//   a consumer's retry-after -----+   4 a second at most   +-> Entry -> Dispatch: closed or open
//   rung pause, resume --------------> rung_pauses --------+   2 reads a second
//
// Reading (gates.cc): windows are in the config; of the others, what has changed is read from the database
// twice a second, and all of it every half minute, because a row that was deleted is not among the changes.
// While the database cannot be read, what was read last applies; an end at a time takes effect by the
// database's clock. Before the first read nothing is known, and so it is after our leases were lost (the
// process may have been suspended), until a read that began later has ended: publish nothing meanwhile.
//
// Telling (gate_notes.cc): outcomes of deliveries for breakers, whose state is kept in the database for all
// instances; a retry-after that holds back a whole queue; that a queue is outside its window or that a rate
// limits it, for people. Merged in memory, and written for many queues in one transaction. And it asks for a
// breaker's probes.
//
// What arrives costs work for the queues that it is about, however many others there are. Queues that the
// config does not name are named by messages. Of those, kMostUnlisted have a state; the gates of others,
// except windows and pauses, are not kept, until states that are no longer in use are deleted from the
// database (after a day). And kMostPending have something that waits to be written.
// Times: by the database's clock. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/leases/jobs.h"

namespace rung::bridge {

class Gates {
 public:
  static constexpr std::size_t kMostUnlisted = 1000;
  static constexpr std::size_t kMostPending = 2000;
  static constexpr std::size_t kMostTotals = 500;

  // Why a queue gets nothing: its gate in force.
  struct Closed {
    GateKind by = GateKind::pause;
    std::optional<EpochMs> until;  // none: not known
    std::string_view word;         // the state in the view retry_queues
    bool operator==(const Closed& other) const { return by == other.by && until == other.until; }
  };

  // `changed`: known(), or what is known of these queues, may have changed.
  Gates(const Sidecar& sidecar, std::function<void(const std::vector<std::string>& queues)> changed);

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
  // How long the gate has been closed since `due`, a rate apart.
  Ms closed_since(std::string_view queue, EpochMs due) const;
  // The gate was closed at some time since `due`.
  bool was_closed(std::string_view queue, EpochMs due) const { return closed_since(queue, due) > Ms{0}; }

  // --- telling
  // The broker has confirmed a delivery of the task.
  void published(const Task& task);
  void decided(const Decision& decision);
  // The task that was to be this probe is not to be sent any more: another one may go.
  void unsent(const std::string& queue, int probe);
  // A consumer of this task asked that the queue wait.
  void hold_queue(const std::string& queue, Ms wait, TaskId task);

  // Queues with something that is not written yet.
  std::size_t pending() const { return pending_; }

 private:
  struct Note : GateNote {
    bool queued = false;  // in ready_
  };
  // A queue of which none of this is known has no entry.
  struct Entry : KnownGates {
    bool seen = false;            // see()
    std::optional<EpochMs> next;  // when it may open or close by itself: in by_time_
    std::optional<Closed> closed;
    std::optional<Note> note;  // not written yet
    bool empty() const { return !pause && !state && !seen && !next && !closed && !note; }
  };
  using Book = std::map<std::string, Entry, std::less<>>;
  struct Reading {
    EpochMs at;                // before it was read: by DbClock::now(), never ahead of the database
    bool all = false;          // else what has changed
    bool states_read = false;  // not if the config has no gates
    std::vector<Pause> pauses;
    std::vector<GateState> states;
  };
  // Of a breaker that is not closed.
  struct Probing {
    Breaker::State logged = Breaker::State::closed;
    bool asking = false;   // for a probe
    BootMs not_before{0};  // a granted probe could not be sent
  };
  struct Batch;

  const RuleBook& rules() const { return *sidecar_.rules; }
  bool is_listed(std::string_view queue) const { return rules().queues().contains(queue); }
  const Entry* find(std::string_view queue) const;
  void tick();
  Jobs::Work read();
  void read_done(const Reading& reading, bool fresh);
  void take(const Pause& pause);
  void take(const GateState& state);
  void forget_all_but(const Reading& reading);
  void check_ends();
  void start_timer();
  void update(const std::string& queue);
  void update_all();
  void tell(bool in_any_case = false);
  static void log_change(const std::string& queue, const Entry& known, const std::optional<Closed>& after);

  // nullptr: no breaker is kept for it.
  const BreakerRules* breaker_rules(const std::string& queue) const;
  Totals::Breaker& totals_of(const std::string& queue);
  void log_breaker(const std::string& queue, const Breaker& breaker);
  void look_after(const std::string& queue);
  void ask_for_probe(const std::string& queue, Probing& probing);
  void granted(const std::string& queue, int probe);
  // By a breaker, and by nothing else.
  bool is_closed_by_breaker(const std::string& queue) const;
  void add_outcome(const std::string& queue, const BreakerRules& breaker, DeliveryOutcome outcome);
  bool make_room(const std::string& queue);
  Note* note(const std::string& queue);
  Note take_note(Book::iterator place);
  void write_soon(const std::string& queue, Note& note, Ms wait);
  void flush_within(Ms wait);
  void note_what_lasts();  // windows and rates
  void note_limit(const std::string& queue);
  void flush();
  void written(const Batch& batch, const Result<std::vector<GateState>>& states);

  const Sidecar& sidecar_;
  const std::function<void(const std::vector<std::string>&)> changed_;
  const Jobs::Id read_;
  bool started_ = false;
  Book book_;
  std::set<std::pair<EpochMs, std::string>> by_time_;  // Entry::next
  std::map<const TimeWindow*, WindowNow> windows_;
  RuleBookPtr updated_for_;           // the rules that book_ and windows_ are by
  std::vector<std::string> touched_;  // not told yet
  bool clocked_ = false;              // the database's clock is known, and all gates are judged by it
  std::size_t unlisted_ = 0;          // queues with a state that the config does not name

  std::optional<BootMs> unknown_since_ = BootMs{0};  // none: a read has ended
  int generation_ = 0;  // a read that began before the latest says nothing about now
  EpochMs read_at_;
  BootMs read_all_at_{0};
  bool read_states_ = false;                    // all of them, once
  std::set<std::string, std::less<>> written_;  // by us, since the latest read began

  std::map<std::string, Probing> probing_;
  std::size_t pending_ = 0;        // entries with a note
  std::deque<std::string> ready_;  // those of them that are to be written soon, each once
  bool writing_ = false;
  std::uint64_t batches_ = 0;
  BootMs wrote_at_{0}, flushes_at_{0};

  io::Timer ends_, flush_;
};

}  // namespace rung::bridge
