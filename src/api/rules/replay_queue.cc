#include "src/api/rules/replay_queue.h"

#include <algorithm>
#include <utility>

namespace rung::api {

void ReplayQueue::add(std::uint32_t message, const std::string& value, EpochMs now) {
  waiting_[!gate().rate_by ? "" : value.empty() ? kNoValue : value].push_back({message, now});
}

std::optional<GateInForce> ReplayQueue::in_force(EpochMs now) {
  if (gate().window != nullptr) window_.look(*gate().window, now);
  return known_.in_force(gate(), gate().window != nullptr ? &window_ : nullptr, now);
}

int ReplayQueue::change(const GateNote& note, EpochMs now) {
  GateState after = *known_.state;
  const int probe = apply_note(after, note, rules_, now, [this](const Breaker& breaker) {
    if (breaker.opened == 1) ++opened_;
  });
  known_.take(std::move(after), gate(), now);
  return probe;
}

// REQUIRES: something waits.
ReplayQueue::Values::const_iterator ReplayQueue::oldest() const {
  return std::ranges::min_element(waiting_, {}, [](const auto& tasks) { return tasks.second.front().due; });
}

// Tasks a second; 0 = no limit. Targets has what is overdue go out at the catch-up rate.
double ReplayQueue::rate(EpochMs now) const {
  const double rate = send_rate(rules_, known_.state->breaker, now), catch_up = rules_.catch_up;
  if (catch_up <= 0 || now - oldest()->second.front().due <= kOverdueAfter) return rate;
  return rate > 0 ? std::min(rate, catch_up) : catch_up;
}

void ReplayQueue::take(const std::string& value, std::size_t count, int probe, EpochMs now,
                       std::vector<Pass>& out) {
  const auto tasks = waiting_.find(value);
  for (; count > 0; --count) {
    const Waiting& first = tasks->second.front();
    const Ms gated = gate().limits() ? now - first.due : known_.closed_between(first.due, now, gate());
    out.push_back({first.message, first.due, probe, gated});
    tasks->second.pop_front();
    ++book_.out;
  }
  if (tasks->second.empty()) waiting_.erase(tasks);
}

void ReplayQueue::take_by_rate(double rate, EpochMs now, std::vector<Pass>& out) {
  SendRequest request;
  request.rate = rate;
  request.rate_by = gate().rate_by ? gate().rate_by->per_second : 0;
  request.in_flight = gate().in_flight;
  request.horizon = Ms{0};
  const double fastest = std::max(request.rate, request.rate_by);  // no more than this are free at once
  const auto burst = static_cast<std::size_t>(fastest * static_cast<double>(kSendBurst.count()) / 1000) + 2;
  const std::size_t most = fastest > 0 ? burst : static_cast<std::size_t>(gate().in_flight);
  auto it = waiting_.lower_bound(turn_);
  for (auto left = waiting_.size(); left > 0; --left, ++it) {
    if (it == waiting_.end()) it = waiting_.begin();
    request.values.push_back({it->first, std::vector<EpochMs>(std::min(most, it->second.size())), {}});
  }
  const SendTimes times = rung::take(book_, request, now);
  next_.reset();
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    const std::string& value = request.values[i].value;
    const SendTimes::Of& of = times.values[i];
    const auto next = of.next ? of.next : std::optional(now);
    if (!times.full && (of.next || of.given.size() < waiting_.at(value).size()))
      next_ = std::min(next_.value_or(*next), *next);
    if (of.given.empty()) continue;
    turn_ = value + '\0';  // the value after this one goes first next time
    take(value, of.given.size(), 0, now, out);
  }
}

std::vector<ReplayQueue::Pass> ReplayQueue::let_through(EpochMs now) {
  std::vector<Pass> out;
  if (is_closed_gate(known_.state->breaker)) change({}, now);  // probes may have expired
  while (!waiting_.empty()) {
    if (const auto closed = in_force(now)) {
      const int probe = closed->by == GateKind::breaker ? change({.probe = true}, now) : 0;
      if (probe == 0) break;
      ++probes_;
      take(std::string(oldest()->first), 1, probe, now, out);
      continue;
    }
    const double most = rate(now);
    if (most > 0 || gate().limits()) {
      take_by_rate(most, now, out);
      break;  // what is left waits for a send time or an answer
    }
    const auto& [value, tasks] = *waiting_.begin();
    take(std::string(value), tasks.size(), 0, now, out);
  }
  std::ranges::stable_sort(out, {}, [](const Pass& pass) { return pass.due; });
  return out;
}

std::optional<EpochMs> ReplayQueue::ask_again(EpochMs now) {
  if (waiting_.empty()) return std::nullopt;
  const Breaker& breaker = known_.state->breaker;
  if (const auto closed = in_force(now)) {
    const auto ends = closed->by == GateKind::breaker ? next_turn(breaker, *gate().breaker) : closed->until;
    return std::max(ends.value_or(now), now + Ms{1});
  }
  if (gate().in_flight > 0 && book_.out >= gate().in_flight) return std::nullopt;
  EpochMs next = std::max(next_.value_or(now), now + kAskEvery);
  if (ramp_up(breaker, now) < 1) next = std::min(next, now + std::max(kRampStep, kAskEvery));
  return next;
}

}  // namespace rung::api
