#include "src/bridge/throttle.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

// How long after an answer to ask again: the more tasks wait together, the fewer transactions. A task waits
// no longer than this for a permit that is free.
constexpr Ms kPermitPause{50};
constexpr std::size_t kMostValues = 200;  // in one request
constexpr int kMostWanted = 500;          // in one request
constexpr std::size_t kMostLookedUp = 500;
constexpr Ms kTellAgain{3000};  // the database forgets unused permits after kUnusedFor
constexpr Ms kShort{1000};      // for so long it is no news that a rate limits

int count_of(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, kMostWanted)); }

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

void Throttle::put(Queue& queue, const std::string& value, const io::DueItem& item) {
  queue.values[value].push(item);
}

void Throttle::add(const io::DueItem& item) {
  Queue& queue = queues_[item.queue];
  ++queue.waiting;
  ++waiting_;
  not_sent(item);  // its claim came too early: it needs another permit
  if (rules(item.queue).rate_by) {
    queue.unknown.push_back(item);
  } else {
    put(queue, "", item);
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
  if (!queues_.empty()) soon();
}

void Throttle::work() {
  for (auto& [number, queue] : queues_) {
    if (!holds(number)) {
      release_all(queue);
      continue;
    }
    look_up(number, queue);
    ask(number, queue);
  }
  std::erase_if(queues_, [](const auto& entry) { return !entry.second.in_use(); });
  if (!queues_.empty()) again_.start(kPermitPause);
}

// A reload has removed the limits.
void Throttle::release_all(Queue& queue) {
  std::vector<io::DueItem> items = std::exchange(queue.unknown, {});
  for (auto& [value, oldest] : queue.values) {
    for (; !oldest.empty(); oldest.pop()) items.push_back(oldest.top());
  }
  queue.values.clear();
  queue.released.clear();
  queue.returned.clear();
  waiting_ -= items.size();
  queue.waiting -= items.size();
  if (!items.empty()) deps_.release(items);
}

void Throttle::look_up(std::uint32_t number, Queue& queue) {
  const auto& by = rules(number).rate_by;
  if (const std::string header = by ? by->header : ""; header != queue.header) {  // by a reload
    queue.header = header;
    for (auto& [value, oldest] : queue.values) {
      for (; !oldest.empty(); oldest.pop()) queue.unknown.push_back(oldest.top());
    }
    queue.values.clear();
  }
  if (!queue.looked_up.empty() || queue.unknown.empty()) return;
  if (!by) {
    for (const io::DueItem& item : std::exchange(queue.unknown, {})) put(queue, "", item);
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
      [this, number](const Result<Values>& values) {
        const auto looked = queues_.find(number);
        if (looked == queues_.end()) return;  // cleared: a drain
        if (!values)
          log::error("reading the values of a header failed", {{"reason", values.error().message}});
        for (const io::DueItem& item : std::exchange(looked->second.looked_up, {})) {
          const auto value = values ? values->find(item.id) : Values::const_iterator{};
          const bool found = values && value != values->end();
          put(looked->second, found ? value->second : "", item);
        }
        soon();
      });
}

// Released tasks that may not be in the database as claimed yet. Those of shards that we have lost are
// another instance's.
int Throttle::unused(Queue& queue) const {
  std::erase_if(queue.released, [this](const auto& entry) {
    const io::DueItem& item = entry.second.item;
    return !deps_.tracker.contains(item) || deps_.tracker.claim_recorded(item.id) ||
           !deps_.shards.held(item.shard);
  });
  return static_cast<int>(queue.released.size());
}

void Throttle::not_sent(const io::DueItem& item) {
  const auto queue = queues_.find(item.queue);
  if (queue == queues_.end()) return;
  const auto released = queue->second.released.extract(item.id);
  if (released.empty()) return;
  ++queue->second.returned[released.mapped().value];
  queue->second.not_before = {};
  soon();
}

// What to ask for: values in turn, and of each no more than its bucket can hold.
PermitCounts Throttle::wanted(std::uint32_t number, Queue& queue) const {
  PermitCounts out;
  const auto& by = rules(number).rate_by;
  const int most = by ? static_cast<int>(TokenBucket::burst(by->per_second)) : kMostWanted;
  auto left = static_cast<int>(std::min<std::size_t>(deps_.room(number), kMostWanted));
  auto it = queue.values.lower_bound(queue.turn);
  auto values = queue.values.size();
  for (; values > 0 && left > 0 && out.size() < kMostValues; --values) {
    if (it == queue.values.end()) it = queue.values.begin();
    const int count = std::min({count_of(it->second.size()), left, it->first.empty() ? kMostWanted : most});
    if (count > 0) out.emplace(it->first, count);
    left -= count;
    ++it;
  }
  // If not all are in the request, the others go first next time; else see granted().
  if (values > 0 && !out.empty()) queue.turn = it == queue.values.end() ? "" : it->first;
  return out;
}

void Throttle::ask(std::uint32_t number, Queue& queue) {
  const std::string& name = deps_.names.name(number);
  const bool held_permits = !queue.released.empty();
  const int still_unused = unused(queue);
  const BootMs now = deps_.clock.here().boot();
  if (queue.asking || now < queue.not_before) return;
  PermitRequest request;
  request.turn = queue.turn;
  if (deps_.gates.why_closed(name) == nullptr) request.wanted = wanted(number, queue);
  const GateRules& gate = rules(number);
  // Without tasks, only to say that permits have been used, go back, or are still held.
  const bool says_unused =
      gate.in_flight > 0 && held_permits && (still_unused == 0 || now - queue.told_at > kTellAgain);
  if (request.wanted.empty() && queue.returned.empty() && !says_unused) return;
  queue.told_at = now;
  const double full_rate = gate.rate > 0 ? gate.rate : deps_.rules->queue(name).catch_up;
  queue.asking = true;
  NewPermits permits{name,
                     gate,
                     std::move(request),
                     full_rate,
                     deps_.shards.node(),
                     still_unused,
                     std::exchange(queue.returned, {})};
  deps_.jobs.submit<PermitCounts>(
      Lane::flow, [permits](GateStore& store) { return store.permits(permits); },
      [this, number, asked = permits.request.wanted](const Result<PermitCounts>& answer) {
        const auto found = queues_.find(number);
        if (found == queues_.end()) return;  // cleared: a drain
        found->second.asking = false;
        if (!answer) return log::error("asking for permits failed", {{"reason", answer.error().message}});
        granted(number, asked, *answer);
      });
}

void Throttle::granted(std::uint32_t number, const PermitCounts& wanted, const PermitCounts& granted) {
  Queue& queue = queues_[number];
  const bool whole = wanted.size() == queue.values.size();
  std::vector<io::DueItem> items;
  for (const auto& [value, count] : granted) {
    int left = count;
    const auto from = queue.values.find(value);
    for (; from != queue.values.end() && left > 0 && !from->second.empty(); --left) {
      const io::DueItem item = from->second.top();
      from->second.pop();
      items.push_back(item);
      queue.released[item.id] = {item, value};
    }
    if (left > 0) queue.returned[value] += left;
    if (from != queue.values.end() && from->second.empty()) queue.values.erase(from);
    if (whole) queue.turn = value + '\0';  // the value after this one goes first next time
  }
  queue.waiting -= items.size();
  waiting_ -= items.size();
  const BootMs now = deps_.clock.here().boot();
  const bool enough = granted == wanted;
  if (enough) {
    queue.short_since.reset();
  } else if (!queue.short_since) {
    queue.short_since = now;
  }
  queue.not_before = enough ? BootMs{} : now + kPermitPause;
  if (!items.empty()) deps_.release(items);
  if (queue.waiting > 0 && enough) {
    soon();
  } else if (!again_.active()) {
    again_.start(kPermitPause);
  }
}

std::size_t Throttle::count(const Queue& queue) const {
  std::size_t sum = queue.unknown.size() + queue.looked_up.size();
  for (const auto& [value, oldest] : queue.values) sum += oldest.size();
  return sum;
}

void Throttle::tidy() {
  std::vector<int> ours = deps_.shards.list();
  if (ours == tidied_for_) return;
  tidied_for_ = std::move(ours);
  const auto gone = [this](const io::DueItem& item) {
    if (deps_.shards.held(item.shard)) return false;
    if (deps_.tracker.contains(item) && !deps_.tracker.publishing(item.id)) deps_.tracker.untrack(item.id);
    return true;
  };
  waiting_ = 0;
  for (auto& [number, queue] : queues_) {
    std::erase_if(queue.unknown, gone);
    std::erase_if(queue.looked_up, gone);
    for (auto& [value, oldest] : queue.values) {
      Oldest kept;
      for (; !oldest.empty(); oldest.pop()) {
        if (!gone(oldest.top())) kept.push(oldest.top());
      }
      oldest = std::move(kept);
    }
    std::erase_if(queue.values, [](const auto& entry) { return entry.second.empty(); });
    queue.waiting = count(queue);
    waiting_ += queue.waiting;
  }
}

std::optional<io::DueItem> Throttle::take_oldest(std::uint32_t number) {
  const auto queue = queues_.find(number);
  if (queue == queues_.end()) return std::nullopt;
  auto& values = queue->second.values;
  const auto oldest = std::ranges::min_element(values, {}, [](const auto& entry) {
    return entry.second.empty() ? EpochMs{INT64_MAX} : entry.second.top().at;
  });
  if (oldest == values.end() || oldest->second.empty()) return std::nullopt;
  const io::DueItem item = oldest->second.top();
  oldest->second.pop();
  if (oldest->second.empty()) values.erase(oldest);
  --queue->second.waiting;
  --waiting_;
  return item;
}

std::size_t Throttle::waiting(std::uint32_t queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.waiting;
}

std::vector<std::string> Throttle::limited() const {
  std::vector<std::string> names;
  const BootMs now = deps_.clock.here().boot();
  for (const auto& [number, queue] : queues_) {
    if (queue.waiting > 0 && queue.short_since && now - *queue.short_since >= kShort)
      names.push_back(deps_.names.name(number));
  }
  return names;
}

void Throttle::clear(const std::function<void(TaskId)>& gone) {
  again_.stop();
  for (auto& [number, queue] : queues_) {
    for (const io::DueItem& item : queue.unknown) gone(item.id);
    for (const io::DueItem& item : queue.looked_up) gone(item.id);
    for (auto& [value, oldest] : queue.values) {
      for (; !oldest.empty(); oldest.pop()) gone(oldest.top().id);
    }
  }
  queues_.clear();
  waiting_ = 0;
}

}  // namespace rung::bridge
