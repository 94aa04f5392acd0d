#include "src/api/replay_gate.h"

#include <algorithm>

namespace rung::api {
namespace {

constexpr Ms kRampStep{1000};     // the rate doubles each second after a breaker has closed
constexpr Ms kPublishWait{5000};  // breaker.cc: a probe that has not been published by then is void

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
  const std::string key = value.empty() ? kNoValue : value;
  waiting_[gate().rate_by ? key : ""].push_back({message, now, closed_total_});
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
    ++book_.out;
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

void ReplayGate::take_by_rate(double rate, EpochMs now, std::vector<Pass>& out) {
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
    take(value, static_cast<int>(of.given.size()), 0, now, out);
  }
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
    take_by_rate(most, now, out);
    break;  // what is left waits for a send time or an answer
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
  if (gate().in_flight > 0 && book_.out >= gate().in_flight) return std::nullopt;
  EpochMs next = std::max(next_.value_or(now), now + kAskEvery);
  if (gate().breaker && ramp_up(breaker_, now) < 1)
    next = std::min(next, now + std::max(kRampStep, kAskEvery));
  return next;
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
