#include "src/api/replay_gate.h"

#include <algorithm>
#include <cmath>

namespace rung::api {
namespace {

constexpr Ms kRampStep{1000};     // the rate doubles each second after a breaker has closed
constexpr Ms kPublishWait{5000};  // breaker.cc: a probe that has not been published by then is void

Ms until_token(const TokenBucket& bucket, double per_second) {
  if (bucket.tokens >= 1 || per_second <= 0) return Ms{0};
  return Ms{static_cast<std::int64_t>(std::ceil((1 - bucket.tokens) * 1000 / per_second))};
}

}  // namespace

bool ReplayGate::is_closed(EpochMs now) const {
  if (now < held_until_ || (gate().window && !gate().window->is_open(now))) return true;
  return gate().breaker && is_closed_gate(breaker_);
}

void ReplayGate::note_closed(EpochMs now) {
  if (closed_) closed_total_ += now - noted_at_;
  noted_at_ = now;
  closed_ = is_closed(now);
}

void ReplayGate::add(std::uint32_t message, const std::string& value, EpochMs now) {
  note_closed(now);
  waiting_[gate().rate_by ? value : ""].push_back({message, now, closed_total_});
}

EpochMs ReplayGate::oldest() const {
  EpochMs least = waiting_.begin()->second.front().due;
  for (const auto& [value, tasks] : waiting_) least = std::min(least, tasks.front().due);
  return least;
}

double ReplayGate::rate(EpochMs now) const {
  double rate = gate().rate;
  const double catch_up = rules_.catch_up;
  if (gate().breaker) {
    const double share = ramp_up(breaker_, now);
    if (share < 1) rate = share * (rate > 0 ? rate : catch_up);
  }
  if (catch_up > 0 && now - oldest() > kOverdue) rate = rate > 0 ? std::min(rate, catch_up) : catch_up;
  return rate;
}

void ReplayGate::take(const std::string& value, int count, int probe, EpochMs now, std::vector<Pass>& out) {
  const auto tasks = waiting_.find(value);
  for (; count > 0; --count) {
    const Waiting& first = tasks->second.front();
    const Ms gated = gate().limits() ? now - first.due : closed_total_ - first.closed_before;
    out.push_back({first.message, first.due, probe, gated});
    tasks->second.pop_front();
    ++book_.in_flight;
  }
  if (tasks->second.empty()) waiting_.erase(tasks);
}

bool ReplayGate::take_probe_if_any(EpochMs now, std::vector<Pass>& out) {
  const int probe = take_probe(breaker_, *gate().breaker, now);
  if (probe == 0) return false;
  ++probes_;
  const EpochMs least = oldest();
  const auto of =
      std::ranges::find_if(waiting_, [&](const auto& tasks) { return tasks.second.front().due == least; });
  take(std::string(of->first), 1, probe, now, out);
  return true;
}

std::vector<ReplayGate::Pass> ReplayGate::let_through(EpochMs now) {
  std::vector<Pass> out;
  if (gate().breaker) expire_probes(breaker_, *gate().breaker, unanswered(), now);
  note_closed(now);
  while (!waiting_.empty()) {
    if (now < held_until_ || (gate().window && !gate().window->is_open(now))) break;
    if (gate().breaker && is_closed_gate(breaker_)) {
      if (!take_probe_if_any(now, out)) break;
      continue;
    }
    const double most = rate(now);
    if (most <= 0 && !gate().limits()) {
      const auto& [value, tasks] = *waiting_.begin();
      take(std::string(value), static_cast<int>(tasks.size()), 0, now, out);
      continue;
    }
    PermitRequest request;
    for (const auto& [value, tasks] : waiting_) request.wanted[value] = static_cast<int>(tasks.size());
    request.turn = turn_;
    request.ramp_rate = most;
    const PermitCounts granted = grant(book_, gate(), request, now);
    if (granted.empty()) break;
    for (const auto& [value, count] : granted) take(value, count, 0, now, out);
    turn_ = granted.rbegin()->first + '\0';  // the value after this one goes first next time
    break;                                   // what is left waits for tokens or answers
  }
  std::ranges::stable_sort(out, {}, [](const Pass& pass) { return pass.due; });
  return out;
}

std::optional<EpochMs> ReplayGate::ask_again(EpochMs now) const {
  if (waiting_.empty()) return std::nullopt;
  if (now < held_until_) return held_until_;
  if (gate().window && !gate().window->is_open(now)) return gate().window->next_change(now);
  if (gate().breaker && is_closed_gate(breaker_)) {
    if (breaker_.until) return std::max(*breaker_.until, now + Ms{1});
    std::optional<EpochMs> first;
    for (const Breaker::Probe& probe : breaker_.probes) {
      const EpochMs ends =
          probe.since + (probe.published ? gate().breaker->probe_timeout : kPublishWait) + Ms{1};
      first = std::min(first.value_or(ends), ends);
    }
    return std::max(first.value_or(now), now + Ms{1});
  }
  if (gate().in_flight > 0 && book_.in_flight >= gate().in_flight) return std::nullopt;
  const double queue_rate = rate(now);
  Ms wait = queue_rate > 0 ? until_token(book_.queue, queue_rate) : Ms{0};
  if (gate().rate_by) {
    std::optional<Ms> of_value;
    for (const auto& [value, tasks] : waiting_) {
      const auto bucket = book_.values.find(value);
      const Ms own = value.empty() || bucket == book_.values.end()
                         ? Ms{0}
                         : until_token(bucket->second, gate().rate_by->per_second);
      of_value = std::min(of_value.value_or(own), own);
    }
    wait = std::max(wait, of_value.value_or(Ms{0}));
  }
  if (gate().breaker && ramp_up(breaker_, now) < 1) wait = std::min(wait, kRampStep);
  return now + std::max(wait, kAskEvery);
}

void ReplayGate::hold(EpochMs until, EpochMs now) {
  held_until_ = std::max(held_until_, until);
  note_closed(now);
}

void ReplayGate::record(const DeliveryOutcome& outcome, EpochMs now) {
  if (!gate().breaker) return;
  const auto before = breaker_.state;
  rung::record(breaker_, *gate().breaker, outcome, unanswered(), now);
  if (before == Breaker::State::closed && breaker_.state == Breaker::State::open) ++opened_;
  note_closed(now);
}

bool ReplayGate::waits_for_answers() const {
  return !waiting_.empty() && (gate().in_flight > 0 || gate().breaker);
}

}  // namespace rung::api
