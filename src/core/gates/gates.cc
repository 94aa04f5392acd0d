#include "src/core/gates/gates.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/utf8.h"

namespace rung {
namespace {

using BreakerState = Breaker::State;
using Delivered = DeliveryOutcome::Kind;

constexpr char kSucceeded = '.', kFailed = 'x';
constexpr std::size_t kErrorShown = 200;  // bytes
// A probe that was granted but not published: its instance died, or its task was cancelled. It says nothing
// about the target, so another may go.
constexpr Ms kPublishWithin{5000};
constexpr double kRampFrom = 0.1;

void turn(Breaker& breaker, BreakerState state, EpochMs now) {
  breaker.state = state;
  breaker.since = now;
  breaker.until.reset();
  breaker.outcomes.clear();
  breaker.succeeded = 0;
  breaker.probes.clear();
}

void open(Breaker& breaker, const BreakerRules& rules, std::string reason, EpochMs now) {
  turn(breaker, BreakerState::open, now);
  const auto which = std::min<std::size_t>(static_cast<std::size_t>(breaker.opened), rules.wait.size() - 1);
  breaker.until = now + rules.wait[which];
  if (breaker.opened++ == 0) breaker.opened_at = now;
  breaker.reason = std::move(reason);
}

void count(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome,
           const Silence& silence, EpochMs now) {
  std::string& outcomes = breaker.outcomes;
  const bool presumed = silence.means == Silence::Means::success;
  switch (outcome.kind) {
    case Delivered::published:
      if (presumed) outcomes += kSucceeded;
      break;
    case Delivered::succeeded:
      if (!presumed) outcomes += kSucceeded;
      break;
    case Delivered::failed: {
      const auto counted = presumed ? outcomes.rfind(kSucceeded) : std::string::npos;
      if (counted != std::string::npos) {
        outcomes[counted] = kFailed;
      } else {
        outcomes += kFailed;
      }
      break;
    }
    case Delivered::dropped:
      return;
  }
  const auto most = static_cast<std::size_t>(rules.of_last);
  if (outcomes.size() > most) outcomes.erase(0, outcomes.size() - most);
  const auto failures = std::ranges::count(outcomes, kFailed);
  if (failures < rules.open_after) return;
  open(breaker, rules,
       std::to_string(failures) + " of the last " + std::to_string(outcomes.size()) +
           " deliveries failed, the last one with: " + outcome.error,
       now);
}

// For so long a probe may be without an answer.
Ms patience(const Breaker::Probe& probe, const BreakerRules& rules) {
  return probe.published ? rules.probe_timeout : kPublishWithin;
}

void probe_succeeded(Breaker& breaker, const BreakerRules& rules, EpochMs now) {
  if (++breaker.succeeded < rules.close_after) return;
  turn(breaker, BreakerState::closed, now);
  breaker.opened = 0;
}

}  // namespace

bool is_breaker_failure(const BreakerRules& rules, std::string_view error_type) {
  return rules.only.empty() || std::ranges::any_of(rules.only, [&](const std::string& only) {
           return matches_pattern(only, error_type);
         });
}

std::optional<DeliveryOutcome> outcome_of(const Task& task, const Attempt& attempt,
                                          const BreakerRules& rules) {
  const int probe = attempt.attempt == task.attempt ? task.probe : 0;
  switch (attempt.outcome) {
    case Outcome::pending:
      if (!attempt.published_at) return std::nullopt;
      return DeliveryOutcome{Delivered::published, probe, {}};
    case Outcome::succeeded:
      return DeliveryOutcome{Delivered::succeeded, probe, {}};
    case Outcome::failed:
    case Outcome::timed_out:
    case Outcome::returned:
      if (!is_breaker_failure(rules, task.error_type))
        return DeliveryOutcome{Delivered::succeeded, probe, {}};
      return DeliveryOutcome{Delivered::failed, probe, attempt.error};
  }
  return std::nullopt;
}

void PendingOutcomes::add(DeliveryOutcome outcome, int of_last) {
  const bool is_probe = outcome.probe != 0;
  if (!is_probe && outcome.kind == Delivered::dropped) return;  // it says nothing
  matters_ = matters_ || is_probe || outcome.kind == Delivered::failed;
  outcome.error =
      clean_utf8(error_line("", outcome.error), kErrorShown);  // others write it, as long as they like
  all_.push_back(std::move(outcome));
  if (all_.size() <= 4 * static_cast<std::size_t>(of_last)) return;
  const auto oldest = std::ranges::find(all_, 0, &DeliveryOutcome::probe);
  if (oldest != all_.end()) all_.erase(oldest);
}

void record(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome,
            const Silence& silence, EpochMs now) {
  if (breaker.state == BreakerState::closed && outcome.probe == 0)
    return count(breaker, rules, outcome, silence, now);
  // While it is open, only its own probes say something new: the other messages were sent before it opened.
  const auto probe = std::ranges::find(breaker.probes, outcome.probe, &Breaker::Probe::number);
  if (outcome.probe == 0 || probe == breaker.probes.end()) return;
  switch (outcome.kind) {
    case Delivered::published:
      probe->published = true;
      probe->since = now;
      return;
    case Delivered::dropped:
      breaker.probes.erase(probe);
      return;
    case Delivered::succeeded:
      breaker.probes.erase(probe);
      return probe_succeeded(breaker, rules, now);
    case Delivered::failed:
      return open(breaker, rules, "a probe failed: " + outcome.error, now);
  }
}

bool expire_probes(Breaker& breaker, const BreakerRules& rules, const Silence& silence, EpochMs now) {
  bool found = false;
  while (true) {
    const auto late = std::ranges::find_if(breaker.probes, [&](const Breaker::Probe& probe) {
      return std::chrono::abs(now - probe.since) > patience(probe, rules);
    });
    if (late == breaker.probes.end()) return found;
    found = true;
    const bool published = late->published;
    breaker.probes.erase(late);
    if (!published) continue;
    if (silence.means == Silence::Means::success) {
      probe_succeeded(breaker, rules, now);
    } else {
      open(breaker, rules, "a probe got no answer", now);
    }
  }
}

int take_probe(Breaker& breaker, const BreakerRules& rules, EpochMs now) {
  if (breaker.state == BreakerState::closed || (breaker.until && *breaker.until > now)) return 0;
  if (breaker.state == BreakerState::open) {
    breaker.state = BreakerState::half_open;
    breaker.since = now;
    breaker.until.reset();
  }
  // No more than can still be needed.
  const int most = std::min(rules.probes, rules.close_after - breaker.succeeded);
  if (static_cast<int>(breaker.probes.size()) >= most) return 0;
  breaker.probes.push_back({++breaker.last_probe, now, false});
  return breaker.last_probe;
}

std::optional<EpochMs> next_turn(const Breaker& breaker, const BreakerRules& rules) {
  std::optional<EpochMs> next = breaker.until;
  for (const Breaker::Probe& probe : breaker.probes) {
    const EpochMs expires = probe.since + patience(probe, rules) + Ms{1};
    next = std::min(next.value_or(expires), expires);
  }
  return next;
}

double ramp_up(const Breaker& breaker, EpochMs now) {
  if (breaker.since.ms == 0 || breaker.state != BreakerState::closed) return 1.0;
  const auto steps =
      static_cast<double>((now - breaker.since).count()) / static_cast<double>(kRampStep.count());
  return steps > 10 ? 1.0 : std::min(1.0, kRampFrom * std::exp2(std::max(std::floor(steps), 0.0)));
}

std::string describe_change(const Breaker& after) {
  if (after.state == BreakerState::closed)
    return "after " + levels::format_duration(after.since - after.opened_at);
  return after.reason + "; probes from " + format_utc(after.until.value_or(after.since)) + " UTC";
}

std::string detail_json(const Breaker& breaker) {
  auto probes = nlohmann::json::array();
  for (const Breaker::Probe& probe : breaker.probes)
    probes.push_back({probe.number, probe.since.ms, probe.published});
  return nlohmann::json{{"opened", breaker.opened},         {"opened_at", breaker.opened_at.ms},
                        {"outcomes", breaker.outcomes},     {"succeeded", breaker.succeeded},
                        {"last_probe", breaker.last_probe}, {"probes", std::move(probes)}}
      .dump();
}

bool read_detail(Breaker& breaker, std::string_view json) try {
  if (json.empty()) return true;
  const auto detail = nlohmann::json::parse(json);
  // They choose a wait, count, and number: what a person wrote must not overflow.
  constexpr int kMostCounted = 1'000'000, kLastProbe = 2'000'000'000;
  Breaker read = breaker;
  read.opened = std::clamp(detail.value("opened", 0), 0, kMostCounted);
  read.opened_at.ms = detail.value("opened_at", std::int64_t{0});
  read.outcomes = detail.value("outcomes", "");
  read.succeeded = std::clamp(detail.value("succeeded", 0), 0, kMostCounted);
  read.last_probe = detail.value("last_probe", 0);
  if (read.last_probe < 0 || read.last_probe > kLastProbe) return false;
  for (const auto& probe : detail.value("probes", nlohmann::json::array())) {
    read.probes.push_back(
        {probe.at(0).get<int>(), EpochMs{probe.at(1).get<std::int64_t>()}, probe.at(2).get<bool>()});
  }
  breaker = std::move(read);
  return true;
} catch (const nlohmann::json::exception&) {
  return false;
}

// --- all gates

void ClosedTimes::add(EpochMs from, EpochMs to) {
  if (to <= from) return;
  const auto begin = std::ranges::find_if(spans_, [&](const Span& span) { return span.to >= from; });
  auto end = begin;
  for (; end != spans_.end() && end->from <= to; ++end) {
    from = std::min(from, end->from);
    to = std::max(to, end->to);
  }
  spans_.insert(spans_.erase(begin, end), Span{from, to});
  if (spans_.size() > kMost) spans_.erase(spans_.begin());
}

Ms ClosedTimes::between(EpochMs from, EpochMs to) const {
  Ms sum{0};
  for (const Span& span : spans_) sum += std::max(std::min(span.to, to) - std::max(span.from, from), Ms{0});
  return sum;
}

namespace {

constexpr Ms kConfirmed{60'000};
// A second, while the flow grows: a token that comes later would outlast the growing.
constexpr double kLeastRamp = 0.2;

// The longest wins.
void lengthen(std::optional<GateState::Hold>& held, const GateNote::Hold& by, EpochMs now) {
  const bool in_force = held && held->until > now;
  if (!in_force || held->until < now + by.wait)
    held = {in_force ? held->since : now, now + by.wait, by.reason};
}

// `after` says as well when the queue was closed by what was in force `before`.
bool continues(const GateState& before, const GateState& after) {
  const auto since = [](const GateState& state) {
    return state.retry_after ? state.retry_after->since : EpochMs{};
  };
  return since(before) == since(after) && before.breaker.opened_at == after.breaker.opened_at;
}

template <class T>
const T* pointer_to(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

}  // namespace

HeldBy held_by(const Pause* pause, const GateState* state, EpochMs now) {
  if (state == nullptr) return {.pause = pause};
  const bool confirmed = state->seen_at > now - kConfirmed;
  return {pause, confirmed ? pointer_to(state->outside) : nullptr, pointer_to(state->retry_after),
          confirmed ? &state->breaker : nullptr, pointer_to(state->limited)};
}

std::optional<GateInForce> gate_in_force(const HeldBy& held, EpochMs now) {
  const auto holds = [&](const GateState::Hold* hold) { return hold != nullptr && hold->until > now; };
  const auto of = [](GateKind by, std::string_view word, const auto& from, std::string_view who) {
    return GateInForce{by, word, from.since, from.until, from.reason, who};
  };
  if (held.pause != nullptr && held.pause->is_in_force(now))
    return of(GateKind::pause, "paused", *held.pause, held.pause->who);
  if (holds(held.outside)) return of(GateKind::window, "outside_window", *held.outside, "");
  if (holds(held.retry_after)) return of(GateKind::retry_after, "paused", *held.retry_after, "retry-after");
  if (const Breaker* breaker = held.breaker; breaker != nullptr && is_closed_gate(*breaker)) {
    const bool waits = breaker->state == Breaker::State::open && breaker->until && *breaker->until > now;
    return of(GateKind::breaker, waits ? "breaker_open" : "breaker_half_open", *breaker, "");
  }
  if (holds(held.limited)) return of(GateKind::limit, "rate_limited", *held.limited, "");
  return std::nullopt;
}

std::optional<GateInForce> KnownGates::in_force(const GateRules& rules, const WindowNow* window,
                                                EpochMs now) const {
  HeldBy held{.pause = pointer_to(pause)};
  GateState::Hold outside;
  if (window != nullptr && !window->open) {
    outside = {window->from, window->until, {}};
    held.outside = &outside;
  }
  if (state && rules.retry_after.pauses_queue) held.retry_after = pointer_to(state->retry_after);
  if (state && rules.breaker) held.breaker = &state->breaker;
  auto gate = gate_in_force(held, now);
  if (gate && gate->by == GateKind::window) gate->reason = {};  // it was of `outside`
  return gate;
}

void KnownGates::take(GateState after, const GateRules& rules, EpochMs now) {
  if (state && !continues(*state, after)) note_times(rules, now);
  state = std::move(after);
}

void KnownGates::add_times(const GateRules& rules, EpochMs now, ClosedTimes& to) const {
  if (pause) to.add(pause->since, pause->until && (pause->over || *pause->until < now) ? *pause->until : now);
  if (!state) return;
  const auto& hold = state->retry_after;
  if (hold && rules.retry_after.pauses_queue) to.add(hold->since, std::min(hold->until, now));
  const Breaker& breaker = state->breaker;
  if (rules.breaker && breaker.opened_at.ms != 0)
    to.add(breaker.opened_at, is_closed_gate(breaker) ? now : breaker.since);
}

Ms KnownGates::closed_between(EpochMs from, EpochMs now, const GateRules& rules) const {
  if (from >= now) return Ms{0};
  ClosedTimes all = times;
  add_times(rules, now, all);
  Ms closed = all.between(from, now);
  if (rules.window != nullptr) closed += rules.window->closed_between(from, now);
  return std::min(closed, now - from);
}

int apply_note(GateState& state, const GateNote& note, const QueueRules& rules, EpochMs now,
               const std::function<void(const Breaker&)>& turned) {
  int probe = 0;
  if (const auto& breaker = rules.gate.breaker; breaker) {
    Breaker& shared = state.breaker;
    const auto changing = [&](const auto& change) {
      const int opened = shared.opened;
      const bool was_closed = !is_closed_gate(shared);
      change();
      if (shared.opened > opened || (!was_closed && !is_closed_gate(shared))) turned(shared);
    };
    changing([&] { expire_probes(shared, *breaker, rules.silence, now); });
    for (const DeliveryOutcome& outcome : note.outcomes.all())
      changing([&] { record(shared, *breaker, outcome, rules.silence, now); });
    if (note.probe) probe = take_probe(shared, *breaker, now);
    if (now - state.seen_at > kConfirmBreaker) state.seen_at = now;
  }
  if (note.hold) lengthen(state.retry_after, *note.hold, now);
  if (note.limited) lengthen(state.limited, *note.limited, now);
  if (note.outside) {
    const bool same = state.outside && state.outside->until == note.outside->until;
    state.outside = {same ? state.outside->since : now, note.outside->until, note.outside->reason};
    state.seen_at = now;
  }
  return probe;
}

double send_rate(const QueueRules& rules, const Breaker& breaker, EpochMs now) {
  const double ramp = ramp_up(breaker, now);
  if (ramp >= 1.0) return rules.gate.rate;
  const double full = rules.gate.rate > 0 ? rules.gate.rate : rules.catch_up;
  return std::max(full * ramp, std::min(full, kLeastRamp));
}

}  // namespace rung
