#include "src/core/gates/gates.h"

#include <algorithm>
#include <utility>

namespace rung {

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
    changing([&] { expire_probes(shared, *breaker, unanswered(rules), now); });
    for (const DeliveryOutcome& outcome : note.outcomes.all())
      changing([&] { record(shared, *breaker, outcome, unanswered(rules), now); });
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

Unanswered unanswered(const QueueRules& rules) {
  return rules.silence.means == Silence::Means::success ? Unanswered::succeeded : Unanswered::failed;
}

double send_rate(const QueueRules& rules, const Breaker& breaker, EpochMs now) {
  const double ramp = ramp_up(breaker, now);
  if (ramp >= 1.0) return rules.gate.rate;
  const double full = rules.gate.rate > 0 ? rules.gate.rate : rules.catch_up;
  return std::max(full * ramp, std::min(full, kLeastRamp));
}

}  // namespace rung
