// What is known of a queue's gates, which of them is in force, and how they change: decided here for the flow
// (src/bridge/flight/gates.h) and for people (src/api/queues/queues.h). The view retry_queues has the same
// order in SQL; the contract of the stores compares them. Thread: values and pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// --- the circuit breaker of a queue. All instances share it: it is a row in the database, and these
// functions change it inside a transaction that has locked the row.
//
// closed --(open_after of the last of_last outcomes failed)--> open --(its wait is over)--> half-open: probes
// go, one by one --(close_after successes in a row)--> closed; --(a failure, or no answer)--> open again.

struct Breaker {
  // Persisted as words. NOTE: append only.
  enum class State : std::uint8_t { closed = 1, open, half_open };
  // A message let through while half-open, without an outcome yet.
  struct Probe {
    int number = 0;
    EpochMs since;  // when it was granted; once published, when that was confirmed
    bool published = false;
    bool operator==(const Probe&) const = default;
  };

  State state = State::closed;
  EpochMs since;                 // of the state; 0 = closed since ever
  std::optional<EpochMs> until;  // open: from then on probes may go
  int opened = 0;                // how often in a row it has opened: which wait
  EpochMs opened_at;             // when it last opened after it had been closed; 0 = never
  std::string outcomes;          // closed: the last ones, oldest first: '.' succeeded, 'x' failed
  int succeeded = 0;             // half-open: probes in a row
  int last_probe = 0;            // the number of the last probe ever
  std::vector<Probe> probes;
  std::string reason;  // why it opened

  bool operator==(const Breaker&) const = default;
};

template <>
inline constexpr std::array<std::string_view, 3> kWords<Breaker::State>{"closed", "open", "half_open"};

// What an instance saw of a delivery.
struct DeliveryOutcome {
  enum class Kind : std::uint8_t {
    published,  // the broker confirmed it
    succeeded,
    failed,   // as the breaker counts it: see is_breaker_failure()
    dropped,  // it was not published after all
  };
  Kind kind = Kind::published;
  int probe = 0;      // Task::probe
  std::string error;  // failed: for people; PendingOutcomes keeps the beginning of its first line
};

// Whether a failure of this type counts.
bool is_breaker_failure(const BreakerRules& rules, std::string_view error_type);

// The outcome of a delivery that changed to `attempt`; none if it has none. `attempt` as decide() returned
// it.
std::optional<DeliveryOutcome> outcome_of(const Task& task, const Attempt& attempt,
                                          const BreakerRules& rules);

// Outcomes of a queue's deliveries that wait to be counted.
class PendingOutcomes {
 public:
  // Of the ones that were no probes the latest 4 * `of_last` are kept: no more can count.
  void add(DeliveryOutcome outcome, int of_last);
  // Without a failure or a probe's outcome they can wait: they change no breaker.
  bool matters() const { return matters_; }
  const std::deque<DeliveryOutcome>& all() const { return all_; }  // the oldest first

 private:
  std::deque<DeliveryOutcome> all_;
  bool matters_ = false;
};

// Counts an outcome. If the queue's silence means success, what is published counts as succeeded until it
// fails, and a probe that gets no answer has succeeded.
void record(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome,
            const Silence& silence, EpochMs now);
// Decides about probes that have been without an answer for too long. True if there was one.
bool expire_probes(Breaker& breaker, const BreakerRules& rules, const Silence& silence, EpochMs now);
// The number of a probe that may go now, from 1; 0 = none.
int take_probe(Breaker& breaker, const BreakerRules& rules, EpochMs now);

// When, if nothing is recorded before, another probe may go or one expires; none: only an outcome can help.
std::optional<EpochMs> next_turn(const Breaker& breaker, const BreakerRules& rules);

// No task may go, except as a probe.
inline bool is_closed_gate(const Breaker& breaker) { return breaker.state != Breaker::State::closed; }
inline constexpr Ms kRampStep{1000};
// The share of the normal rate while the flow grows again after the breaker has closed: 0.1, doubled each
// kRampStep, at most 1.
double ramp_up(const Breaker& breaker, EpochMs now);

// What an opening or a closing is recorded with: "after 12m", or why it opened and when probes go. For
// people.
std::string describe_change(const Breaker& after);

// A breaker as JSON, for the database, without state, since, until and reason, which have columns. Reading
// ignores what it does not know.
std::string detail_json(const Breaker& breaker);
// False: it could not be read, and the breaker is unchanged.
bool read_detail(Breaker& breaker, std::string_view json);

// --- all gates

// When a gate was closed, as far as we have seen: spans that do not overlap. Thread: a value.
class ClosedTimes {
 public:
  static constexpr std::size_t kMost = 200;  // the oldest spans are forgotten

  // Merges with the spans that it touches.
  void add(EpochMs from, EpochMs to);
  // How much of the time between the two it was closed.
  Ms between(EpochMs from, EpochMs to) const;

 private:
  struct Span {
    EpochMs from, to;
  };
  std::vector<Span> spans_;  // ascending
};

// The latest pause of a queue.
struct Pause {
  std::string queue;
  EpochMs since;
  std::optional<EpochMs> until;  // once resumed: when
  std::string who, reason;
  std::string resumed_by;  // "" = not resumed by hand
  bool over = false;       // by the database's clock, when it was read

  bool is_in_force(EpochMs now) const { return !over && (!until || *until > now); }
  bool operator==(const Pause&) const = default;
};

// What all instances share about a queue that has gates in the config.
struct GateState {
  struct Hold {
    EpochMs since, until;
    std::string reason;
    bool operator==(const Hold&) const = default;
  };

  std::string queue;
  Breaker breaker;
  std::optional<Hold> retry_after;       // a consumer's retry-after that holds back the whole queue
  std::optional<Hold> outside, limited;  // for people: outside its window; tasks wait for a rate
  EpochMs seen_at;                       // when an instance last confirmed that the gates are in its config
  // A part of its row could not be read: edited by hand, or written by a newer version. What could not is as
  // a queue is by default; the next change writes it anew.
  bool damaged = false;

  bool operator==(const GateState&) const = default;
};

// Of several gates that hold back a queue, the first of these is in force.
enum class GateKind : std::uint8_t { pause, window, retry_after, breaker, limit };

// What may hold back a queue, each nullptr if it does not. What has ended does not count.
struct HeldBy {
  const Pause* pause = nullptr;
  const GateState::Hold* outside = nullptr;
  const GateState::Hold* retry_after = nullptr;
  const Breaker* breaker = nullptr;
  const GateState::Hold* limited = nullptr;
};
// All of it, as far as instances have confirmed within a minute that it is in their config. For people.
HeldBy held_by(const Pause* pause, const GateState* state, EpochMs now);

struct GateInForce {
  GateKind by = GateKind::pause;
  std::string_view word;  // the state in the view retry_queues
  EpochMs since;
  std::optional<EpochMs> until;  // none: not known
  std::string_view reason, who;  // of what HeldBy points to
};
// None: the queue flows.
std::optional<GateInForce> gate_in_force(const HeldBy& held, EpochMs now);

// Whether a window is open, until it changes.
struct WindowNow {
  EpochMs from, until;
  bool open = false;
  void look(const TimeWindow& window, EpochMs now) {
    if (now < from || now >= until) *this = {now, window.next_change(now), window.is_open(now)};
  }
};

// What is known of a queue whose config is known.
struct KnownGates {
  std::optional<Pause> pause = {};
  std::optional<GateState> state = {};
  ClosedTimes times = {};  // when it was closed, but for its window and what is in force now

  // A limit apart. `window`: of the queue, nullptr = it has none.
  std::optional<GateInForce> in_force(const GateRules& rules, const WindowNow* window, EpochMs now) const;
  void take(GateState after, const GateRules& rules, EpochMs now);
  // Before the pause or the state is replaced by one that says nothing about it.
  void note_times(const GateRules& rules, EpochMs now) { add_times(rules, now, times); }
  // How much of the time between the two it was closed.
  Ms closed_between(EpochMs from, EpochMs now, const GateRules& rules) const;

 private:
  void add_times(const GateRules& rules, EpochMs now, ClosedTimes& to) const;
};

// What is to be changed about a queue's gates: merged in memory, applied where the row is locked.
struct GateNote {
  struct Hold {
    Ms wait{0};
    std::string reason;
  };
  PendingOutcomes outcomes = {};
  std::optional<Hold> hold = {}, limited = {};
  std::optional<GateState::Hold> outside = {};
  bool probe = false;  // asks for one
};
inline constexpr Ms kConfirmBreaker{10'000};  // how often GateState::seen_at is set
// Returns the number of the probe that may go; 0 = none, or not asked for. `turned`: the breaker has opened,
// or closed.
int apply_note(GateState& state, const GateNote& note, const QueueRules& rules, EpochMs now,
               const std::function<void(const Breaker&)>& turned);

// The rate of a queue, tasks a second; 0 = no limit. After a breaker has closed it grows, never beyond the
// queue's own.
double send_rate(const QueueRules& rules, const Breaker& breaker, EpochMs now);
// A task later than this is overdue: it goes out at QueueRules::catch_up at most.
inline constexpr Ms kOverdueAfter{5000};

// How many tasks may go at a limited rate. It saves up one, and what the rate gives in kBurst.
// `per_second` may differ from call to call; 0 = no limit. Thread: a value.
class TokenBucket {
 public:
  static constexpr Ms kBurst{100};

  // Empty then.
  explicit TokenBucket(BootMs since = {}) : filled_at_(since) {}

  void fill(double per_second, BootMs now) {
    tokens_ = tokens(per_second, now);
    filled_at_ = now;
  }
  bool has() const { return tokens_ >= 1 - kRounded; }
  // REQUIRES: has().
  void take() { tokens_ -= 1; }
  // A token that was not used.
  void put_back() { tokens_ += 1; }
  // When it has one, as of the last fill().
  BootMs next(double per_second) const {
    if (has()) return filled_at_;
    return filled_at_ + Ms{static_cast<Ms::rep>(std::ceil((1 - tokens_) * 1000 / per_second))};
  }
  bool is_full(double per_second, BootMs now) const {
    return tokens(per_second, now) >= most(per_second) - kRounded;
  }

 private:
  static constexpr double kRounded = 1e-6;
  static double most(double per_second) {
    return 1 + per_second * static_cast<double>(kBurst.count()) / 1000;
  }
  double tokens(double per_second, BootMs now) const {
    if (per_second <= 0) return std::numeric_limits<double>::infinity();
    const auto passed = static_cast<double>((now - filled_at_).count());
    return std::min(tokens_ + per_second * passed / 1000, most(per_second));
  }

  double tokens_ = 0;
  BootMs filled_at_;
};

}  // namespace rung
