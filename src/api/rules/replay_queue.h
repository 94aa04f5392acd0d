// The tasks of one queue that wait in a replay, and which of them may go. What the queue's gates decide, and
// how they change, is the sidecar's: src/core/gates/gates.h, breaker.h, send_times.h. Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/gates/gates.h"
#include "src/core/gates/send_times.h"
#include "src/core/rules/policy.h"

namespace rung::api {

class ReplayQueue {
 public:
  // Send times are asked for at most this often. kSendBurst is longer, so none is lost.
  static constexpr Ms kAskEvery{50};

  // REQUIRES: `rules` outlives it.
  explicit ReplayQueue(const QueueRules& rules) : rules_(rules) {}

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
  std::optional<EpochMs> ask_again(EpochMs now);

  // An outcome of a delivery that was let through, or a retry-after. Returns a probe's number, as
  // apply_note().
  int change(const GateNote& note, EpochMs now);
  // A delivery has its answer.
  void ended() { --book_.out; }
  // An answer may let others through.
  bool waits_for_answers() const { return !waiting_.empty() && (gate().in_flight > 0 || gate().breaker); }

  int opened() const { return opened_; }  // how often the breaker has opened while it was closed
  int probes() const { return probes_; }

 private:
  struct Waiting {
    std::uint32_t message = 0;
    EpochMs due;
  };
  using Values = std::map<std::string, std::deque<Waiting>, std::less<>>;

  const GateRules& gate() const { return rules_.gate; }
  std::optional<GateInForce> in_force(EpochMs now);
  Values::const_iterator oldest() const;
  double rate(EpochMs now) const;
  void take(const std::string& value, std::size_t count, int probe, EpochMs now, std::vector<Pass>& out);
  void take_by_rate(double rate, EpochMs now, std::vector<Pass>& out);

  const QueueRules& rules_;
  Values waiting_;  // none is empty
  KnownGates known_{.state = GateState{}};
  WindowNow window_;
  SendBook book_;
  std::string turn_;             // the value that goes first
  std::optional<EpochMs> next_;  // the next send time, as of the last let_through()
  int opened_ = 0, probes_ = 0;
};

}  // namespace rung::api
