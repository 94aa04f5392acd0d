// Throttle's requests for send times.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "src/bridge/flight/throttle.h"
#include "src/core/gates/gates.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// In one request: of one queue, and of all.
constexpr std::size_t kMostOfQueue = 500;  // tasks
constexpr std::size_t kMostQueuesAsked = 100, kMostValuesAsked = 500, kMostTasksAsked = 2000;
constexpr Ms kAskPause{40};   // after an answer: the more ask together, the fewer transactions
constexpr Ms kAskAhead{100};  // tasks come here by so much before they are due
constexpr Ms kLead{200};      // before a send time is free, or the last one is used, to ask for more
constexpr Ms kPatience{50};   // earlier by this for each time in vain: another instance may be faster
constexpr Ms kNoAnswer{1000};
constexpr Ms kNoRoom{100};     // the queue takes nothing now
constexpr Ms kClockStep{500};  // half of kImpossible in send_times.cc; slewed clocks are far slower
constexpr Ms kForgetAfter{60'000};
constexpr std::size_t kForgetAt = 1000;  // schedules asked for: at least so many are deleted for them
constexpr int kForgetMost = 2000;

}  // namespace

double Throttle::rate(std::uint32_t number) const {
  const std::string& name = deps_.names.name(number);
  const GateState* state = deps_.gates.state(name);
  return send_rate(deps_.rules->queue(name), state == nullptr ? Breaker{} : state->breaker,
                   deps_.clock.now());
}

// All queues that need send times and can use them now. What does not fit goes with the next request.
void Throttle::ask() {
  const BootMs now = deps_.clock.here().boot();
  if (!asked_.empty() || now < not_before_) return;
  Room room{kMostValuesAsked, kMostTasksAsked};
  std::vector<SendRequest> requests;
  auto it = ready_.lower_bound(next_ready_);
  for (auto left = ready_.size(); left > 0 && room.values > 0 && room.tasks > 0; --left) {
    if (requests.size() == kMostQueuesAsked) break;
    if (it == ready_.end()) it = ready_.begin();
    Queue& queue = queues_.at(*it);
    bool more = false;
    if (may_ask(*it, queue, now)) {
      Asked asked = request(*it, queue, room);
      more = !queue.turn.empty();
      if (!asked.items.empty()) {
        requests.push_back(asked.request);
        asked_.push_back(std::move(asked));
      }
    }
    it = more ? std::next(it) : ready_.erase(it);
  }
  next_ready_ = it == ready_.end() ? 0 : *it;
  if (requests.empty()) return;
  deps_.jobs.submit<std::vector<SendTimes>>(
      Lane::flow,
      [requests = std::move(requests)](GateStore& store) { return store.take_send_times(requests); },
      [this](const Result<std::vector<SendTimes>>& times) { answered(times); });
}

// If not, it is looked at again when that may have changed.
bool Throttle::may_ask(std::uint32_t number, Queue& queue, BootMs now) {
  // changed() follows if its gate opens.
  if (queue.turn.empty() || deps_.gates.why_closed(deps_.names.name(number)) != nullptr) return false;
  const Ms pause = deps_.room(number) == 0 ? kNoRoom : queue.not_before - now;
  if (pause > Ms{0}) wake(number, queue, pause);
  return pause <= Ms{0};
}

void Throttle::wake(std::uint32_t number, Queue& queue, Ms pause) {
  if (std::exchange(queue.wakes, true)) return;
  agenda_.emplace(deps_.clock.now() + pause, Entry{number, std::nullopt, std::nullopt, {}});
}

Throttle::Asked Throttle::request(std::uint32_t number, Queue& queue, Room& room) {
  const GateRules& gate = rules(number);
  Asked asked{number, {}, {}, queue.header};
  SendRequest& request = asked.request;
  request.queue = deps_.names.name(number);
  request.rate = rate(number);
  request.rate_by = gate.rate_by ? gate.rate_by->per_second : 0;
  request.horizon = send_horizon(request.rate, request.rate_by);
  // So that other instances get some, too.
  const auto share = [&](double per_second) {
    const double seconds = static_cast<double>((request.horizon + kSendBurst).count()) / 1000;
    return static_cast<std::size_t>(
        std::ceil(std::min(per_second, 1e6) * seconds * deps_.shards.count() / kShards + 0.01));
  };
  std::size_t left = std::min({room.tasks, kMostOfQueue, deps_.room(number)});
  if (request.rate > 0) left = std::min(left, share(request.rate));
  const std::size_t most = request.rate_by > 0 ? share(request.rate_by) : left;
  while (!queue.turn.empty() && left > 0 && room.values > 0) {
    const std::string value = std::move(queue.turn.front());
    queue.turn.pop_front();
    Value& of = queue.values.at(value);
    std::vector<io::DueItem> items;
    for (; !of.waiting.empty() && items.size() < std::min(most, left); of.waiting.pop())
      items.push_back(of.waiting.top());
    if (items.empty()) {
      of.listed = false;
      continue;
    }
    left -= items.size();
    room.tasks -= items.size();
    --room.values;
    SendRequest::Value& asks = request.values.emplace_back(SendRequest::Value{value, {}});
    for (const io::DueItem& item : items) {
      // Later only if the database's clock was set back: the claim says so.
      asks.due.push_back(std::min(item.at, deps_.clock.now() + kAskAhead));
    }
    asked.items.push_back(std::move(items));
  }
  return asked;
}

void Throttle::answered(const Result<std::vector<SendTimes>>& times) {
  not_before_ = deps_.clock.here().boot() + kAskPause;
  if (!times) log::error("reserving send times failed", {{"reason", times.error().message}});
  const auto asked = std::exchange(asked_, {});
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto queue = queues_.find(asked[i].queue);
    if (queue != queues_.end()) answered(queue->second, asked[i], times ? (*times)[i] : SendTimes{});
    schedules_ += asked[i].items.size();
  }
  if (schedules_ >= kForgetAt) forget();
  soon();
}

void Throttle::answered(Queue& queue, const Asked& asked, const SendTimes& times) {
  const EpochMs now = deps_.clock.now();
  for (std::size_t i = 0; i < asked.items.size(); ++i) {
    const std::string& value = asked.request.values[i].value;
    const SendTimes::Of of = i < times.values.size() ? times.values[i] : SendTimes::Of{};
    Value& its = queue.values[value];
    std::size_t nth = 0;
    for (const io::DueItem& item : asked.items[i]) {
      if (nth == of.given.size()) {
        its.waiting.push(item);
        continue;
      }
      // A task that no rate delays goes at once: it is claimed a little before it is due.
      const EpochMs at = of.given[nth++];
      agenda_.emplace(at <= item.at ? now : at, Entry{asked.queue, value, item, at});
      ++its.to_send;
    }
    its.refused = nth > 0 ? 0 : its.refused + 1;
    const Ms lead = std::min(kLead + kPatience * std::min(its.refused, 4), asked.request.horizon);
    EpochMs next = now;
    if (of.next) {
      next = *of.next - lead;
    } else if (nth > 0) {
      next = std::max(of.given.back() - kLead, now);
    }
    agenda_.emplace(next, Entry{asked.queue, value, std::nullopt, {}});
  }
  if (times.values.empty()) queue.not_before = deps_.clock.here().boot() + kNoAnswer;
  if (asked.header != queue.header) forget_values(queue);  // by a reload meanwhile
}

// The database's clock was set, or the rules have changed: what is in agenda_ is at the wrong time.
void Throttle::check_agenda() {
  const std::int64_t skew = deps_.clock.now().ms - deps_.clock.here().boot().ms;
  const bool stepped = std::abs(std::exchange(skew_, skew) - skew) > kClockStep.count();
  if (std::exchange(asked_by_, deps_.rules.get()) == deps_.rules.get() && !stepped) return;
  std::multimap<EpochMs, Entry> kept;
  for (auto& [at, entry] : std::exchange(agenda_, {})) {
    const auto queue = queues_.find(entry.queue);
    if (queue == queues_.end() || !queue->second.has(entry.value)) continue;
    ready_.insert(entry.queue);
    queue->second.wakes = false;
    if (entry.item && !stepped) {
      kept.emplace(at, std::move(entry));
    } else if (entry.item) {
      Value& of = queue->second.values.at(*entry.value);
      --of.to_send;
      of.waiting.push(*entry.item);
      list(entry.queue, queue->second, *entry.value, of);
    } else if (entry.value) {
      queue->second.turn.push_back(*entry.value);
    }
  }
  agenda_ = std::move(kept);
}

// Any instance may delete them.
void Throttle::forget() {
  if (std::exchange(forgetting_, true)) return;
  schedules_ = 0;
  forgotten_at_ = deps_.clock.here().boot();
  deps_.jobs.submit<int>(
      Lane::upkeep,
      [before = deps_.clock.now() - kForgetAfter](GateStore& store) {
        return store.forget_send_times(before, kForgetMost);
      },
      [this](const Result<int>& deleted) {
        forgetting_ = false;
        if (!deleted) return log::warn("unused rates not deleted", {{"reason", deleted.error().message}});
        if (*deleted == kForgetMost) forget();
      });
}

}  // namespace rung::bridge
