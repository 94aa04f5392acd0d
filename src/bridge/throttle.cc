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

bool Throttle::holds(std::uint32_t queue) const { return deps_.rules->limits() && rules(queue).limits(); }

void Throttle::put(Queue& queue, const std::string& value, const io::DueItem& item) {
  queue.values[value].push(item);
}

void Throttle::add(const io::DueItem& item) {
  Queue& queue = queues_[item.queue];
  ++queue.waiting;
  ++waiting_;
  queue.unused.erase(item.id);  // its claim came too early: it needs another permit
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
    if (!rules(number).limits()) {
      release_all(queue);
      continue;
    }
    look_up(number, queue);
    ask(number, queue);
  }
  std::erase_if(queues_, [](const auto& entry) {
    const Queue& queue = entry.second;
    return !queue.any() && queue.unused.empty() && !queue.asking && !queue.looking;
  });
  if (!queues_.empty()) again_.start(kPermitPause);
}

// A reload has removed the limits.
void Throttle::release_all(Queue& queue) {
  std::vector<io::DueItem> items = std::exchange(queue.unknown, {});
  for (auto& [value, oldest] : queue.values) {
    for (; !oldest.empty(); oldest.pop()) items.push_back(oldest.top());
  }
  queue.values.clear();
  queue.unused.clear();
  waiting_ -= queue.waiting;
  queue.waiting = 0;
  if (!items.empty()) deps_.release(items);
}

void Throttle::look_up(std::uint32_t number, Queue& queue) {
  if (queue.looking || queue.unknown.empty()) return;
  const auto& by = rules(number).rate_by;
  if (!by) {
    for (const io::DueItem& item : std::exchange(queue.unknown, {})) put(queue, "", item);
    return;
  }
  const auto most = std::min(queue.unknown.size(), kMostLookedUp);
  const std::vector<io::DueItem> items(queue.unknown.begin(),
                                       queue.unknown.begin() + static_cast<std::ptrdiff_t>(most));
  queue.unknown.erase(queue.unknown.begin(), queue.unknown.begin() + static_cast<std::ptrdiff_t>(most));
  std::vector<TaskId> ids;
  for (const io::DueItem& item : items) ids.push_back(item.id);
  std::ranges::sort(ids);
  queue.looking = true;
  using Values = std::map<TaskId, std::string>;
  deps_.jobs.submit<Values>(
      Lane::flow,
      [ids = std::move(ids), header = by->header](GateStore& store) {
        return store.header_values(ids, header);
      },
      [this, number, items](const Result<Values>& values) {
        if (!queues_.contains(number)) return;  // cleared: a drain
        Queue& looked = queues_[number];
        looked.looking = false;
        if (!values)
          log::error("reading the values of a header failed", {{"reason", values.error().message}});
        for (const io::DueItem& item : items) {
          const auto value = values ? values->find(item.id) : Values::const_iterator{};
          const bool found = values && value != values->end();
          put(looked, found ? value->second : "", item);
        }
        soon();
      });
}

// Released tasks that may not be in the database as claimed yet.
int Throttle::unused(Queue& queue) const {
  std::erase_if(queue.unused, [this](TaskId id) {
    return !deps_.tracker.contains(id) || deps_.tracker.claim_recorded(id);
  });
  return static_cast<int>(queue.unused.size());
}

void Throttle::ask(std::uint32_t number, Queue& queue) {
  const std::string& name = deps_.names.name(number);
  const bool held_permits = !queue.unused.empty();
  const int still_unused = unused(queue);
  if (queue.asking) return;
  PermitCounts wanted;
  int left = deps_.gates.why_closed(name) == nullptr ? kMostWanted - still_unused : 0;
  auto it = queue.values.lower_bound(queue.turn);
  for (auto i = queue.values.size(); i > 0 && left > 0 && wanted.size() < kMostValues; --i) {
    if (it == queue.values.end()) it = queue.values.begin();
    const int count = std::min(count_of(it->second.size()), left);
    if (count > 0) wanted.emplace(it->first, count);
    left -= count;
    ++it;
  }
  const GateRules& gate = rules(number);
  // Without tasks, only to say that the permits have been used, or that they are still held.
  const BootMs now = deps_.clock.here().boot();
  const bool says_unused =
      gate.in_flight > 0 && held_permits && (still_unused == 0 || now - queue.told_at > kTellAgain);
  if (wanted.empty() && !says_unused) return;
  queue.told_at = now;
  const double full_rate = gate.rate > 0 ? gate.rate : deps_.rules->queue(name).catch_up;
  NewPermits request{name, gate, {wanted, queue.turn, {}}, full_rate, deps_.shards.node(), still_unused};
  queue.asking = true;
  deps_.jobs.submit<PermitCounts>(
      Lane::flow, [request = std::move(request)](GateStore& store) { return store.permits(request); },
      [this, number, wanted](const Result<PermitCounts>& answer) {
        if (!queues_.contains(number)) return;  // cleared: a drain
        queues_[number].asking = false;
        if (!answer) return log::error("asking for permits failed", {{"reason", answer.error().message}});
        granted(number, wanted, *answer);
      });
}

void Throttle::granted(std::uint32_t number, const PermitCounts& wanted, const PermitCounts& granted) {
  Queue& queue = queues_[number];
  std::vector<io::DueItem> items;
  for (const auto& [value, count] : granted) {
    const auto from = queue.values.find(value);
    if (from == queue.values.end()) continue;
    for (int i = 0; i < count && !from->second.empty(); ++i) {
      items.push_back(from->second.top());
      from->second.pop();
    }
    if (from->second.empty()) queue.values.erase(from);
    queue.turn = value + '\0';  // the value after this one goes first next time
  }
  queue.waiting -= items.size();
  waiting_ -= items.size();
  if (rules(number).in_flight > 0) {
    for (const io::DueItem& item : items) queue.unused.insert(item.id);
  }
  const bool enough = granted == wanted;
  if (enough) {
    queue.short_since.reset();
  } else if (!queue.short_since) {
    queue.short_since = deps_.clock.here().boot();
  }
  if (!items.empty()) deps_.release(items);
  if (queue.any() && enough) {
    soon();
  } else if (!again_.active()) {
    again_.start(kPermitPause);
  }
}

void Throttle::tidy() {
  for (auto& [number, queue] : queues_) {
    const auto gone = [this](const io::DueItem& item) {
      if (deps_.shards.held(item.shard)) return false;
      deps_.tracker.untrack(item.id);
      return true;
    };
    std::erase_if(queue.unknown, gone);
    queue.waiting = queue.unknown.size();
    for (auto& [value, oldest] : queue.values) {
      Oldest ours;
      for (; !oldest.empty(); oldest.pop()) {
        if (!gone(oldest.top())) ours.push(oldest.top());
      }
      oldest = std::move(ours);
      queue.waiting += oldest.size();
    }
    std::erase_if(queue.values, [](const auto& entry) { return entry.second.empty(); });
  }
  waiting_ = 0;
  for (const auto& [number, queue] : queues_) waiting_ += queue.waiting;
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
    if (queue.any() && queue.short_since && now - *queue.short_since >= kShort)
      names.push_back(deps_.names.name(number));
  }
  return names;
}

void Throttle::clear(const std::function<void(TaskId)>& gone) {
  again_.stop();
  for (auto& [number, queue] : queues_) {
    for (const io::DueItem& item : queue.unknown) gone(item.id);
    for (auto& [value, oldest] : queue.values) {
      for (; !oldest.empty(); oldest.pop()) gone(oldest.top().id);
    }
  }
  queues_.clear();
  waiting_ = 0;
}

}  // namespace rung::bridge
