// What is known of a queue's gates, which of them is in force, and how they change: decided here for the flow
// (src/bridge/gates) and for people (src/api/queues/gates.h). The view retry_queues has the same order in
// SQL; the contract of the stores compares them. Thread: values and pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/gates/breaker.h"
#include "src/core/rules/policy.h"

namespace rung {

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

// What silence after a probe means.
Unanswered unanswered(const QueueRules& rules);
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
