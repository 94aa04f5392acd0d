// The circuit breaker of a queue. All instances share it: it is a row in the database, and these functions
// change it inside a transaction that has locked the row. Thread: values and pure functions.
//
// closed --(open_after of the last of_last outcomes failed)--> open --(its wait is over)--> half-open: probes
// go, one by one --(close_after successes in a row)--> closed; --(a failure, or no answer)--> open again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/rules/gate_rules.h"
#include "src/core/task/task.h"

namespace rung {

struct Breaker {
  // Persisted as the words of to_word(). NOTE: append only.
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

std::string_view to_word(Breaker::State state);
std::optional<Breaker::State> breaker_state_from(std::string_view word);

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

// Silence after a delivery means success: then what is published counts as succeeded until it fails, and a
// probe that gets no answer has succeeded.
enum class Unanswered : bool { failed, succeeded };

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

// Counts an outcome.
void record(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome, Unanswered silence,
            EpochMs now);
// Decides about probes that have been without an answer for too long. True if there was one.
bool expire_probes(Breaker& breaker, const BreakerRules& rules, Unanswered silence, EpochMs now);
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

}  // namespace rung
