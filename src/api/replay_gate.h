// The gates of one queue in a replay: the tasks that wait, and which of them may go. The same functions as
// the sidecar's decide: time_window.h, breaker.h, send_times.h. Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/breaker.h"
#include "src/core/policy.h"
#include "src/core/send_times.h"

namespace rung::api {

class ReplayGate {
 public:
  // A task later than this goes out at the catch-up rate.
  static constexpr Ms kOverdue{5000};

  // Send times are asked for at most this often. kSendBurst is longer, so none is lost.
  static constexpr Ms kAskEvery{50};

  // REQUIRES: `rules` outlives it.
  explicit ReplayGate(const QueueRules& rules) : rules_(rules) {}

  // A task is due. `value`: of the header that GateRules::rate_by names, "" = none.
  void add(std::uint32_t message, const std::string& value, EpochMs now);

  struct Pass {
    std::uint32_t message = 0;
    EpochMs due;
    int probe = 0;  // 0 = it is none
    Ms gated{0};    // how long it has waited because of the gates, as bridge/gates.h counts it
  };
  // Those that may go now, the oldest first.
  std::vector<Pass> let_through(EpochMs now);
  // When to ask again; none: nothing waits, or only an answer can help.
  std::optional<EpochMs> ask_again(EpochMs now) const;

  // A consumer's retry-after holds back the whole queue.
  void hold(EpochMs until, EpochMs now);
  // An outcome of a delivery that was let through.
  void record(const DeliveryOutcome& outcome, EpochMs now);
  // A delivery has its answer.
  void ended() { --book_.out; }
  // An answer may let others through.
  bool waits_for_answers() const;

  int opened() const { return opened_; }  // how often the breaker has opened while it was closed
  int probes() const { return probes_; }

 private:
  struct Waiting {
    std::uint32_t message = 0;
    EpochMs due;
    Ms closed_before{0};  // closed_total_ when it began to wait
  };

  const GateRules& gate() const { return rules_.gate; }
  Unanswered unanswered() const {
    return rules_.silence.means == Silence::Means::success ? Unanswered::succeeded : Unanswered::failed;
  }
  bool is_closed(EpochMs now) const;
  void note_closed(EpochMs now);
  EpochMs oldest() const;
  // Tasks a second; 0 = no limit.
  double rate(EpochMs now) const;
  void take(const std::string& value, int count, int probe, EpochMs now, std::vector<Pass>& out);
  void take_by_rate(double rate, EpochMs now, std::vector<Pass>& out);
  bool take_probe_if_any(EpochMs now, std::vector<Pass>& out);

  const QueueRules& rules_;
  std::map<std::string, std::deque<Waiting>, std::less<>> waiting_;  // by value; none is empty
  Breaker breaker_;
  SendBook book_;
  std::string turn_;             // the value that goes first
  std::optional<EpochMs> next_;  // the next send time, as of the last let_through()
  EpochMs held_until_;
  bool closed_ = false;  // as of noted_at_
  EpochMs noted_at_;
  Ms closed_total_{0};
  int opened_ = 0, probes_ = 0;
};

}  // namespace rung::api
