#include "src/bridge/flight/throttle.h"

#include <algorithm>
#include <utility>

#include "src/core/base/require.h"
#include "src/core/rules/rate_value.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostLookedUp = 500;
constexpr Ms kTooLate{1000};  // a send time that was missed by this is lost: else they would go out at once
constexpr Ms kShort{1000};    // for so long it is no news that a rate delays tasks
constexpr Ms kForgetEvery{60'000};

}  // namespace

Throttle::Throttle(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), loop_(loop), again_(loop, [this] { work(); }) {}

const GateRules& Throttle::rules(std::uint32_t queue) const {
  return deps_.rules->queue(deps_.names.name(queue)).gate;
}

// Delays to an exchange have no queue: no gate applies to them.
bool Throttle::holds(std::uint32_t queue) const {
  const std::string& name = deps_.names.name(queue);
  return deps_.rules->limits() && !name.empty() && rules(queue).limits() && deps_.gates.keeps(name);
}

bool Throttle::full(std::uint32_t number) const {
  const auto queue = queues_.find(number);
  if (queue == queues_.end() || queue->second.waiting < kFewKept) return false;
  return waiting_ >= deps_.most_in_all || queue->second.waiting >= kMostKept ||
         queue->second.values.size() >= kMostValues;
}

void Throttle::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  for (const auto& [number, queue] : queues_) {
    if (queue.waiting > 0) tell(number);
  }
}

void Throttle::add(const io::DueItem& item) {
  RUNG_REQUIRE(deps_.flights.is(item, Flight::Stage::throttled));
  Queue& queue = queues_[item.queue];
  if (const std::string& name = deps_.names.name(item.queue); queue.name != name) {
    queue = {};  // the number was another queue's
    queue.name = name;
  }
  ++queue.waiting;
  ++waiting_;
  if (rules(item.queue).rate_by) {
    queue.unknown.push_back(item);
    ready_.insert(item.queue);
  } else {
    put(item.queue, queue, "", item);
  }
  soon();
}

void Throttle::soon() {
  if (std::exchange(posted_, true)) return;
  loop_.post([this] {
    posted_ = false;
    work();
  });
}

void Throttle::changed() {
  for (const auto& [number, queue] : queues_) ready_.insert(number);
  if (!queues_.empty()) soon();
}

void Throttle::work() {
  if (agenda_.empty()) check_agenda();
  due();
  for (const std::uint32_t number : std::set(ready_)) {
    const auto queue = queues_.find(number);
    if (queue == queues_.end()) {
      ready_.erase(number);
    } else if (!holds(number)) {  // a reload has removed the limits
      ready_.erase(number);
      release_all(queue->second);
    } else {
      look_up(number, queue->second);
    }
  }
  ask();
  arm();
}

void Throttle::arm() {
  std::optional<Ms> next;
  if (!agenda_.empty()) next = agenda_.begin()->first - deps_.clock.now();
  if (!ready_.empty() && asked_.empty()) {
    const Ms pause = not_before_ - deps_.clock.here().boot();
    next = std::min(next.value_or(pause), pause);
  }
  if (next) again_.start(std::max(*next, Ms{1}));
}

// Whether it is not ours any more: its shard was lost, or it was moved or cancelled.
bool Throttle::is_gone(const io::DueItem& item) {
  if (!deps_.flights.is(item, Flight::Stage::throttled)) return true;
  if (deps_.shards.held(item.shard)) return false;
  deps_.flights.drop(item.id);
  return true;
}

void Throttle::due() {
  const EpochMs now = deps_.clock.now();
  std::vector<io::DueItem> items;
  std::map<std::uint32_t, std::size_t> room;
  while (!agenda_.empty() && agenda_.begin()->first <= now) {
    const auto node = agenda_.extract(agenda_.begin());
    const Entry& entry = node.mapped();
    const auto queue = queues_.find(entry.queue);
    if (queue == queues_.end() || !queue->second.has(entry.value)) continue;
    ready_.insert(entry.queue);
    if (entry.item) {
      const auto [left, first] = room.try_emplace(entry.queue);
      if (first) left->second = room_for(entry.queue);
      if (send(queue->second, entry, left->second > 0, items)) --left->second;
    } else if (entry.value) {
      queue->second.turn.push_back(*entry.value);
    } else {
      queue->second.wakes = false;
    }
  }
  if (!items.empty()) deps_.release(items);
}

std::size_t Throttle::room_for(std::uint32_t number) const {
  return deps_.gates.why_closed(deps_.names.name(number)) == nullptr ? deps_.room(number) : 0;
}

// A send time has come. If the queue takes nothing now, it is lost: when it does, they must not all go at
// once.
bool Throttle::send(Queue& queue, const Entry& entry, bool takes, std::vector<io::DueItem>& out) {
  Value& of = queue.values.at(*entry.value);
  --of.to_send;
  bool sent = false;
  if (!takes || deps_.clock.now() - entry.send_at > kTooLate) {
    of.waiting.push(*entry.item);
  } else {
    sent = release(queue, *entry.value, *entry.item, out);
    if (!sent) sent = use(queue, *entry.value, of, entry.send_at, out);
  }
  list(entry.queue, queue, *entry.value, of);
  return sent;
}

// For the next task of the value; if there is none, for one that comes soon.
bool Throttle::use(Queue& queue, const std::string& value, Value& of, EpochMs send_at,
                   std::vector<io::DueItem>& out) {
  while (!of.waiting.empty()) {
    const io::DueItem item = of.waiting.top();
    of.waiting.pop();
    if (release(queue, value, item, out)) return true;
  }
  of.spare = send_at;
  return false;
}

// False if the task is not ours any more.
bool Throttle::release(Queue& queue, const std::string& value, const io::DueItem& item,
                       std::vector<io::DueItem>& out) {
  --queue.waiting;
  --waiting_;
  if (is_gone(item)) return false;
  deps_.flights.permit(item, value, deps_.clock.here().boot());
  out.push_back(item);
  return true;
}

void Throttle::not_sent(std::uint32_t number, const std::string& value) {
  const auto queue = queues_.find(number);
  if (queue == queues_.end() || room_for(number) == 0) return;
  std::vector<io::DueItem> out;
  use(queue->second, value, queue->second.values[value], deps_.clock.now(), out);
  if (!out.empty()) loop_.post([this, out] { deps_.release(out); });
}

void Throttle::put(std::uint32_t number, Queue& queue, const std::string& value, const io::DueItem& item) {
  Value& of = queue.values[value];
  of.waiting.push(item);
  if (const auto spare = std::exchange(of.spare, std::nullopt);
      spare && deps_.clock.now() - *spare <= kTooLate && room_for(number) > 0) {
    std::vector<io::DueItem> out;
    use(queue, value, of, *spare, out);
    if (!out.empty()) deps_.release(out);
  }
  list(number, queue, value, of);
}

// If its tasks need send times, it is the value's turn after the others.
void Throttle::list(std::uint32_t number, Queue& queue, const std::string& value, Value& of) {
  if (of.waiting.empty() || std::exchange(of.listed, true)) return;
  queue.turn.push_back(value);
  ready_.insert(number);
  soon();
}

void Throttle::forget_values(Queue& queue) {
  for (auto& [value, of] : queue.values) {
    for (; !of.waiting.empty(); of.waiting.pop()) queue.unknown.push_back(of.waiting.top());
  }
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
  using Values = std::map<TaskId, std::string>;
  deps_.jobs.submit<Values>(
      Lane::flow,
      [ids = std::move(ids), header = by->header](GateStore& store) {
        return store.header_values(ids, header);
      },
      [this, number, header = by->header](const Result<Values>& values) {
        const auto looked = queues_.find(number);
        if (looked == queues_.end()) return;  // cleared: a drain
        if (!values)
          log::error("reading the values of a header failed", {{"reason", values.error().message}});
        const auto items = std::exchange(looked->second.looked_up, {});
        if (header != looked->second.header) {  // by a reload
          looked->second.unknown.insert(looked->second.unknown.end(), items.begin(), items.end());
          return changed();
        }
        for (const io::DueItem& item : items) {
          const auto value = values ? values->find(item.id) : Values::const_iterator{};
          found(number, looked->second, item, values && value != values->end() ? value->second : "");
        }
        ready_.insert(number);
        soon();
      });
}

void Throttle::found(std::uint32_t number, Queue& queue, const io::DueItem& item, const std::string& value) {
  value_counts_.missing += value.empty() ? 1 : 0;
  value_counts_.digests += is_digest(value) ? 1 : 0;
  if ((value.empty() || is_digest(value)) && told_.insert(number).second)
    log::warn("rate_by: a header without a usual value", {{"queue", deps_.names.name(number)},
                                                          {"header", queue.header},
                                                          {"id", item.id.value},
                                                          {"value", value.empty() ? kNoValue : value}});
  put(number, queue, value.empty() ? kNoValue : value, item);
}

// A reload has removed the limits.
void Throttle::release_all(Queue& queue) {
  std::vector<io::DueItem> items = std::exchange(queue.unknown, {});
  for (auto& [value, of] : queue.values) {
    for (; !of.waiting.empty(); of.waiting.pop()) items.push_back(of.waiting.top());
  }
  waiting_ -= items.size();
  queue.waiting -= items.size();
  for (const io::DueItem& item : items) deps_.flights.pass(item);
  if (!items.empty()) deps_.release(items);
}

void Throttle::tick() {
  check_agenda();
  const EpochMs now = deps_.clock.now();
  for (auto& [number, queue] : queues_) {
    if (!holds(number)) ready_.insert(number);
    std::erase_if(queue.values, [&](const auto& entry) {
      const Value& of = entry.second;
      return of.waiting.empty() && of.to_send == 0 && !of.listed && (!of.spare || now - *of.spare > kTooLate);
    });
    queue.limited = room_for(number) > 0 && std::ranges::any_of(queue.values, [&](const auto& entry) {
                      const Oldest& waiting = entry.second.waiting;
                      return !waiting.empty() && now - waiting.top().at >= kShort;
                    });
  }
  std::erase_if(queues_, [](const auto& entry) {
    const Queue& queue = entry.second;
    return queue.waiting == 0 && queue.values.empty() && queue.looked_up.empty();
  });
  if (!queues_.empty() && deps_.clock.here().boot() - forgotten_at_ >= kForgetEvery) forget();
  work();
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
  deps_.flights.pass(item);
  return item;
}

std::size_t Throttle::waiting(std::uint32_t queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.waiting;
}

std::vector<std::string> Throttle::limited() const {
  std::vector<std::string> names;
  for (const auto& [number, queue] : queues_) {
    if (queue.limited) names.push_back(deps_.names.name(number));
  }
  return names;
}

void Throttle::clear() {
  again_.stop();
  queues_.clear();
  agenda_.clear();
  ready_.clear();
  asked_.clear();
  waiting_ = 0;
}

}  // namespace rung::bridge
