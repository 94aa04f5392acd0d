#include "src/bridge/flight/throttle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/result.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/gate_rules.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// The key of tasks whose header has no value: they share one rate.
constexpr const char* kNoValue = "(no value)";
constexpr std::size_t kMostLookedUp = 500;
constexpr Ms kTurn{20};     // the more tasks go together, the fewer transactions; well below the burst
constexpr Ms kNoRoom{100};  // the queue takes nothing now
constexpr Ms kShort{1000};  // for so long it is no news that a rate delays tasks

}  // namespace

Throttle::Throttle(const Sidecar& sidecar, Flights& flights, std::size_t most_in_all)
    : sidecar_(sidecar),
      flights_(flights),
      most_in_all_(most_in_all),
      began_(sidecar.loop.clock().boot()),
      again_(sidecar.loop, [this] { work(); }) {}

const GateRules& Throttle::rules(std::uint32_t queue) const {
  return sidecar_.rules->queue(sidecar_.names.name(queue)).gate;
}

// Delays to an exchange have no queue: no gate applies to them.
bool Throttle::holds(std::uint32_t queue) const {
  const std::string& name = sidecar_.names.name(queue);
  return sidecar_.rules->limits() && !name.empty() && rules(queue).limits() && sidecar_.gates.keeps(name);
}

bool Throttle::full(std::uint32_t number) const {
  const auto queue = queues_.find(number);
  if (queue == queues_.end() || queue->second.waiting < kFewKept) return false;
  return waiting_ >= most_in_all_ || queue->second.waiting >= kMostKept ||
         queue->second.line.size() >= kMostValues;
}

void Throttle::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  for (const auto& [number, queue] : queues_) {
    if (queue.waiting > 0) tell(number);
  }
}

double Throttle::share(double per_second) const {
  return per_second * std::max(sidecar_.shards.count(), 1) / kShards;
}

double Throttle::rate(std::uint32_t number) const {
  const std::string& name = sidecar_.names.name(number);
  const GateState* state = sidecar_.gates.state(name);
  return share(send_rate(sidecar_.rules->queue(name), state == nullptr ? Breaker{} : state->breaker,
                         sidecar_.clock.now()));
}

double Throttle::rate_by(std::uint32_t number) const {
  const auto& by = rules(number).rate_by;
  return by ? share(by->per_second) : 0;
}

// Of a bucket that we have not used: as if a token had been taken at the last multiple of its interval before
// we began. A restart neither gives one away nor costs an interval.
BootMs Throttle::empty_since(double per_second) const {
  if (per_second <= 0) return began_;
  const auto by_db = static_cast<double>(sidecar_.clock.at(began_).ms);
  return began_ - Ms{static_cast<Ms::rep>(std::fmod(by_db, 1000 / per_second))};
}

void Throttle::add(const io::DueItem& item) {
  RUNG_REQUIRE(flights_.is(item, Flight::Stage::throttled));
  const std::string& name = sidecar_.names.name(item.queue);
  auto place = queues_.find(item.queue);
  if (place != queues_.end() && place->second.name != name) {  // the number was another queue's
    queues_.erase(place);
    place = queues_.end();
  }
  if (place == queues_.end())
    place = queues_.emplace(item.queue, Queue{name, TokenBucket(empty_since(rate(item.queue)))}).first;
  Queue& queue = place->second;
  ++queue.waiting;
  ++waiting_;
  if (rules(item.queue).rate_by) {
    queue.unknown.push_back(item);
    wake(queue, sidecar_.loop.clock().boot());
  } else {
    put(item.queue, queue, "", item);
  }
}

void Throttle::wake(Queue& queue, BootMs at) {
  if (queue.wakes && *queue.wakes <= at) return;
  queue.wakes = at;
  if (again_.active() && again_at_ <= at) return;
  again_at_ = at;
  again_.start(std::max(at - sidecar_.loop.clock().boot(), Ms{1}));
}

void Throttle::changed() {
  const BootMs now = sidecar_.loop.clock().boot();
  for (auto& [number, queue] : queues_) wake(queue, now);
}

void Throttle::work() {
  const BootMs now = sidecar_.loop.clock().boot();
  std::vector<io::DueItem> out;
  for (auto& [number, queue] : queues_) {
    if (!queue.wakes) continue;
    const BootMs at = *std::exchange(queue.wakes, std::nullopt);
    if (at > now) {
      wake(queue, at);
    } else if (!holds(number)) {  // a reload has removed the rates
      release_all(queue);
    } else {
      look_up(number, queue);
      if (const auto next = send(number, queue, now, out)) wake(queue, *next);
    }
  }
  if (!out.empty()) sidecar_.dispatch.released(out);
}

// Other shards, or a reload: the values' turns come sooner or later.
void Throttle::follow_rate(std::uint32_t number, Queue& queue, BootMs now) {
  if (const double share = rate_by(number); std::exchange(queue.per_value, share) == share) return;
  for (const auto& [at, value] : std::exchange(queue.line, {})) {
    value->second.listed = false;
    list(queue, value, now);
  }
}

// Releases what may go now. Returns when more may; none: changed() or add() follows.
std::optional<BootMs> Throttle::send(std::uint32_t number, Queue& queue, BootMs now,
                                     std::vector<io::DueItem>& out) {
  if (queue.line.empty() || sidecar_.gates.why_closed(queue.name) != nullptr) return std::nullopt;
  std::size_t room = sidecar_.dispatch.room_for(number);
  if (room == 0) return now + kNoRoom;
  follow_rate(number, queue, now);
  const double own = rate(number);
  queue.bucket.fill(own, now);
  while (room > 0 && queue.bucket.has() && !queue.line.empty() && queue.line.begin()->first <= now) {
    const auto value = queue.line.begin()->second;
    queue.line.erase(queue.line.begin());
    value->second.listed = false;
    value->second.bucket.fill(queue.per_value, now);
    if (value->second.bucket.has() && release(queue, *value, now, out)) {
      value->second.bucket.take();
      queue.bucket.take();
      --room;
    }
    list(queue, value, now);
  }
  if (queue.line.empty()) return std::nullopt;
  return std::max({queue.bucket.next(own), queue.line.begin()->first, now + kTurn});
}

// The oldest task of the value; false if none is ours any more.
bool Throttle::release(Queue& queue, Values::value_type& value, BootMs now, std::vector<io::DueItem>& out) {
  Oldest& waiting = value.second.waiting;
  while (!waiting.empty()) {
    const io::DueItem item = waiting.top();
    waiting.pop();
    --queue.waiting;
    --waiting_;
    if (is_gone(item)) continue;
    flights_.permit(item, value.first, now);
    out.push_back(item);
    return true;
  }
  return false;
}

// Whether it is not ours any more: its shard was lost, or it was moved or cancelled.
bool Throttle::is_gone(const io::DueItem& item) {
  if (!flights_.is(item, Flight::Stage::throttled)) return true;
  if (sidecar_.shards.held(item.shard)) return false;
  flights_.drop(item.id);
  return true;
}

void Throttle::not_sent(std::uint32_t number, const std::string& value) {
  const auto place = queues_.find(number);
  if (place == queues_.end()) return;
  Queue& queue = place->second;
  const BootMs now = sidecar_.loop.clock().boot();
  queue.bucket.put_back();
  if (const auto of = queue.values.find(value); of != queue.values.end()) {
    of->second.bucket.put_back();
    if (std::exchange(of->second.listed, false))
      std::erase_if(queue.line, [&](const auto& entry) { return entry.second == of; });
    list(queue, of, now);
  }
  wake(queue, now);
}

void Throttle::put(std::uint32_t number, Queue& queue, const std::string& value, const io::DueItem& item) {
  const BootMs now = sidecar_.loop.clock().boot();
  follow_rate(number, queue, now);
  auto of = queue.values.find(value);
  if (of == queue.values.end()) {
    if (queue.values.size() >= kMostValues) forget_unused(queue, true, now);
    of = queue.values.emplace(value, Value{TokenBucket(empty_since(queue.per_value))}).first;
  }
  of->second.waiting.push(item);
  list(queue, of, now);
  wake(queue, now);
}

// If it has tasks, it is its turn once it has a token, after those that have one.
void Throttle::list(Queue& queue, Values::iterator value, BootMs now) {
  Value& of = value->second;
  if (of.waiting.empty() || std::exchange(of.listed, true)) return;
  of.bucket.fill(queue.per_value, now);
  queue.line.emplace(of.bucket.next(queue.per_value), value);
}

void Throttle::forget_values(Queue& queue) {
  for (auto& [value, of] : queue.values) {
    for (; !of.waiting.empty(); of.waiting.pop()) queue.unknown.push_back(of.waiting.top());
  }
  queue.line.clear();
  queue.values.clear();
}

void Throttle::look_up(std::uint32_t number, Queue& queue) {
  const auto& by = rules(number).rate_by;
  if (const std::string header = by ? by->header : ""; header != queue.header) {  // by a reload
    queue.header = header;
    forget_values(queue);
  }
  if (!queue.looked_up.empty() || queue.unknown.empty()) return;
  if (!by) {
    for (const io::DueItem& item : std::exchange(queue.unknown, {})) put(number, queue, "", item);
    return;
  }
  const auto end =
      queue.unknown.begin() + static_cast<std::ptrdiff_t>(std::min(queue.unknown.size(), kMostLookedUp));
  queue.looked_up.assign(queue.unknown.begin(), end);
  queue.unknown.erase(queue.unknown.begin(), end);
  std::vector<TaskId> ids;
  for (const io::DueItem& item : queue.looked_up) ids.push_back(item.id);
  std::ranges::sort(ids);
  using Read = std::map<TaskId, std::string>;
  sidecar_.jobs.submit<Read>(
      Lane::flow,
      [ids = std::move(ids), header = by->header](Store& store) { return store.header_values(ids, header); },
      [this, number, header = by->header](const Result<Read>& values) {
        const auto looked = queues_.find(number);
        if (looked == queues_.end()) return;  // cleared: a drain
        if (!values)
          log::error("reading the values of a header failed", {{"reason", values.error().message}});
        Queue& of = looked->second;
        const auto items = std::exchange(of.looked_up, {});
        if (header != of.header) {  // by a reload
          of.unknown.insert(of.unknown.end(), items.begin(), items.end());
        } else {
          for (const io::DueItem& item : items) {
            const auto value = values ? values->find(item.id) : Read::const_iterator{};
            found(number, of, item, values && value != values->end() ? value->second : "");
          }
        }
        wake(of, sidecar_.loop.clock().boot());
      });
}

void Throttle::found(std::uint32_t number, Queue& queue, const io::DueItem& item, const std::string& value) {
  if (value.empty() && told_.insert(number).second)
    log::warn("rate_by: a header without a value",
              {{"queue", sidecar_.names.name(number)}, {"header", queue.header}, {"id", item.id.value}});
  put(number, queue, value.empty() ? kNoValue : value, item);
}

// A reload has removed the rates.
void Throttle::release_all(Queue& queue) {
  forget_values(queue);
  const std::vector<io::DueItem> items = std::exchange(queue.unknown, {});
  waiting_ -= items.size();
  queue.waiting -= items.size();
  for (const io::DueItem& item : items) flights_.pass(item);
  if (!items.empty()) sidecar_.dispatch.released(items);
}

// `all`: also of those whose rate is not free yet. It is too much to remember.
void Throttle::forget_unused(Queue& queue, bool all, BootMs now) {
  std::erase_if(queue.values, [&](const auto& entry) {
    const Value& of = entry.second;
    return !of.listed && of.waiting.empty() && (all || of.bucket.is_full(queue.per_value, now));
  });
}

void Throttle::tick() {
  const BootMs now = sidecar_.loop.clock().boot();
  for (auto& [number, queue] : queues_) forget_unused(queue, false, now);
  std::erase_if(queues_, [&](const auto& entry) {
    const auto& [number, queue] = entry;
    return queue.waiting == 0 && queue.values.empty() && queue.looked_up.empty() &&
           queue.bucket.is_full(rate(number), now);
  });
  changed();  // the rate grows after a breaker has closed, and shards come and go
}

std::optional<io::DueItem> Throttle::take_oldest(std::uint32_t number) {
  const auto queue = queues_.find(number);
  if (queue == queues_.end()) return std::nullopt;
  Oldest* oldest = nullptr;
  for (auto& [value, of] : queue->second.values) {
    if (of.waiting.empty()) continue;
    if (oldest == nullptr || of.waiting.top().at < oldest->top().at) oldest = &of.waiting;
  }
  if (oldest == nullptr) return std::nullopt;
  const io::DueItem item = oldest->top();
  oldest->pop();
  --queue->second.waiting;
  --waiting_;
  flights_.pass(item);
  return item;
}

std::size_t Throttle::waiting(std::uint32_t queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.waiting;
}

std::vector<std::string> Throttle::limited() const {
  const EpochMs now = sidecar_.clock.now();
  std::vector<std::string> names;
  for (const auto& [number, queue] : queues_) {
    const bool waits = std::ranges::any_of(queue.line, [&](const auto& entry) {
      const Oldest& waiting = entry.second->second.waiting;
      return !waiting.empty() && now - waiting.top().at >= kShort;
    });
    if (waits && sidecar_.gates.why_closed(queue.name) == nullptr && sidecar_.dispatch.room_for(number) > 0)
      names.push_back(queue.name);
  }
  return names;
}

void Throttle::clear() {
  again_.stop();
  queues_.clear();
  waiting_ = 0;
}

}  // namespace rung::bridge
