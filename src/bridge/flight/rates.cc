// What waits for tokens.
#include <algorithm>
#include <cmath>
#include <utility>

#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/leases/shards.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// The key of tasks whose header has no value: they share one rate.
constexpr const char* kNoValue = "(no value)";
constexpr std::size_t kMostLookedUp = 500;
constexpr Ms kShort{1000};  // for so long it is no news that a rate delays tasks
// When to look again at a queue that can send nothing. What changes that resets Limit::next earlier.
constexpr Ms kStandsStill{1000};

}  // namespace

const GateRules& Targets::gate_rules(std::uint32_t queue) const {
  return sidecar_.rules->queue(sidecar_.names.name(queue)).gate;
}

// Delays to an exchange have no queue: no gate applies to them.
bool Targets::is_limited(std::uint32_t queue) const {
  const std::string& name = sidecar_.names.name(queue);
  return sidecar_.rules->limits() && !name.empty() && gate_rules(queue).limits() &&
         sidecar_.gates.keeps(name);
}

double Targets::share(double per_second) const {
  return per_second * std::max(sidecar_.shards.count(), 1) / kShards;
}

double Targets::rate(std::uint32_t queue) const {
  const std::string& name = sidecar_.names.name(queue);
  const GateState* state = sidecar_.gates.state(name);
  return share(send_rate(sidecar_.rules->queue(name), state == nullptr ? Breaker{} : state->breaker,
                         sidecar_.clock.now()));
}

// Of a bucket that we have not used: as if a token had been taken at the last multiple of its interval before
// we began. A restart neither gives one away nor costs an interval.
BootMs Targets::empty_since(double per_second) const {
  if (per_second <= 0) return began_;
  const auto by_db = static_cast<double>(sidecar_.clock.at(began_).ms);
  return began_ - Ms{static_cast<Ms::rep>(std::fmod(by_db, 1000 / per_second))};
}

void Targets::add_limited(const io::DueItem& item) {
  Target& target = at(item.queue);
  if (target.limit == nullptr)
    target.limit = std::make_unique<Limit>(Limit{TokenBucket(empty_since(rate(item.queue)))});
  target.limit->unknown.push_back(item);
  target.limit->next = {};
  ++target.limit->waiting;
  ++limited_;
}

void Targets::rates_changed() {
  for (auto& [queue, target] : targets_) {
    if (target.limit != nullptr) target.limit->next = {};
  }
}

std::optional<BootMs> Targets::next_token(BootMs now) {
  std::optional<BootMs> next;
  if (limited_ == 0) return next;
  for (auto& [queue, target] : targets_) {
    if (target.limited() == 0) continue;
    if (target.limit->next <= now) follow_rules(queue, target, now);
    const Limit& limit = *target.limit;
    if (!target.closed && !limit.line.empty()) next = std::min(next.value_or(limit.next), limit.next);
  }
  return next;
}

void Targets::follow_rules(std::uint32_t queue, Target& target, BootMs now) {
  Limit& limit = *target.limit;
  if (!is_limited(queue)) {  // a reload has removed the rates
    forget_values(limit);
    for (const io::DueItem& item : limit.unknown) add(item, false);
    limited_ -= limit.unknown.size();
    limit.waiting -= limit.unknown.size();
    limit.unknown.clear();
    return;
  }
  const auto& by = gate_rules(queue).rate_by;
  if (const std::string header = by ? by->header : ""; header != limit.header) {  // by a reload
    limit.header = header;
    forget_values(limit);
  }
  // Other shards, or a reload: the values' turns come sooner or later.
  if (const double each = by ? share(by->per_second) : 0; std::exchange(limit.per_value, each) != each) {
    for (const auto& [at, value] : std::exchange(limit.line, {})) {
      value->second.listed = false;
      list(limit, value, now);
    }
  }
  look_up(queue, limit, now);
  const double own = rate(queue);
  limit.bucket.fill(own, now);
  limit.next = target.closed || limit.line.empty()
                   ? now + kStandsStill
                   : std::max(limit.bucket.next(own), limit.line.begin()->first);
}

std::optional<Taken> Targets::take_limited(Limit& limit, BootMs now) {
  while (limit.has_token(now)) {
    const auto value = limit.line.begin()->second;
    limit.line.erase(limit.line.begin());
    value->second.listed = false;
    value->second.bucket.fill(limit.per_value, now);
    std::optional<io::DueItem> item;
    if (value->second.bucket.has()) item = take_oldest(limit, value->second);
    if (item) {
      value->second.bucket.take();
      limit.bucket.take();
    }
    list(limit, value, now);
    if (item) return Taken{*item, value->first};
  }
  return std::nullopt;
}

// None: no task of the value is ours any more. They were moved or cancelled, or their shards were lost.
std::optional<io::DueItem> Targets::take_oldest(Limit& limit, Value& value) {
  while (!value.waiting.empty()) {
    const io::DueItem item = value.waiting.top();
    value.waiting.pop();
    --limit.waiting;
    --limited_;
    if (flights_.begin_claim(item)) return item;
  }
  return std::nullopt;
}

void Targets::not_sent(std::uint32_t queue, const std::string& value) {
  const auto it = targets_.find(queue);
  if (it == targets_.end() || it->second.limit == nullptr) return;
  Limit& limit = *it->second.limit;
  limit.next = {};
  limit.bucket.put_back();
  const auto of = limit.values.find(value);
  if (of == limit.values.end()) return;
  of->second.bucket.put_back();
  if (std::exchange(of->second.listed, false))
    std::erase_if(limit.line, [&](const auto& entry) { return entry.second == of; });
  list(limit, of, sidecar_.loop.clock().boot());
}

void Targets::put(Limit& limit, const std::string& value, const io::DueItem& item, BootMs now) {
  auto of = limit.values.find(value);
  if (of == limit.values.end()) {
    if (limit.values.size() >= Limit::kMostValues) forget_unused(limit, true, now);
    of = limit.values.emplace(value, Value{TokenBucket(empty_since(limit.per_value))}).first;
  }
  of->second.waiting.push(item);
  list(limit, of, now);
}

// If it has tasks, it is its turn once it has a token, after those that have one.
void Targets::list(Limit& limit, Values::iterator value, BootMs now) {
  Value& of = value->second;
  if (of.waiting.empty() || std::exchange(of.listed, true)) return;
  of.bucket.fill(limit.per_value, now);
  limit.line.emplace(of.bucket.next(limit.per_value), value);
}

void Targets::forget_values(Limit& limit) {
  for (auto& [value, of] : limit.values) {
    for (; !of.waiting.empty(); of.waiting.pop()) limit.unknown.push_back(of.waiting.top());
  }
  limit.line.clear();
  limit.values.clear();
}

// `all`: also of those whose rate is not free yet. It is too much to remember.
void Targets::forget_unused(Limit& limit, bool all, BootMs now) {
  std::erase_if(limit.values, [&](const auto& entry) {
    const Value& of = entry.second;
    return !of.listed && of.waiting.empty() && (all || of.bucket.is_full(limit.per_value, now));
  });
}

bool Targets::remembers_tokens(std::uint32_t queue, const Target& target, BootMs now) const {
  const Limit* limit = target.limit.get();
  return limit != nullptr &&
         (limit->waiting > 0 || !limit->values.empty() || !limit->bucket.is_full(rate(queue), now));
}

void Targets::look_up(std::uint32_t queue, Limit& limit, BootMs now) {
  if (!limit.looked_up.empty() || limit.unknown.empty()) return;
  if (limit.header.empty()) {
    for (const io::DueItem& item : std::exchange(limit.unknown, {})) put(limit, "", item, now);
    return;
  }
  const auto end =
      limit.unknown.begin() + static_cast<std::ptrdiff_t>(std::min(limit.unknown.size(), kMostLookedUp));
  limit.looked_up.assign(limit.unknown.begin(), end);
  limit.unknown.erase(limit.unknown.begin(), end);
  std::vector<TaskId> ids;
  for (const io::DueItem& item : limit.looked_up) ids.push_back(item.id);
  std::ranges::sort(ids);
  sidecar_.jobs.submit<HeaderValues>(
      Lane::flow,
      [ids = std::move(ids), header = limit.header](Store& store) {
        return store.header_values(ids, header);
      },
      [this, queue, header = limit.header](const Result<HeaderValues>& values) {
        if (!values)
          log::error("reading the values of a header failed", {{"reason", values.error().message}});
        const auto it = targets_.find(queue);
        if (it == targets_.end() || it->second.limit == nullptr) return;  // cleared: a drain
        found(queue, *it->second.limit, header, values ? *values : HeaderValues{});
        sidecar_.dispatch.pump();
      });
}

void Targets::found(std::uint32_t queue, Limit& limit, const std::string& header,
                    const HeaderValues& values) {
  limit.next = {};
  const auto items = std::exchange(limit.looked_up, {});
  if (header != limit.header) {  // by a reload
    limit.unknown.insert(limit.unknown.end(), items.begin(), items.end());
    return;
  }
  for (const io::DueItem& item : items) {
    const auto value = values.find(item.id);
    const bool has_value = value != values.end() && !value->second.empty();
    if (!has_value && told_.insert(queue).second)
      log::warn("rate_by: a header without a value",
                {{"queue", sidecar_.names.name(queue)}, {"header", header}, {"id", item.id.value}});
    put(limit, has_value ? value->second : kNoValue, item, sidecar_.loop.clock().boot());
  }
}

std::vector<std::string> Targets::limited(BootMs now) const {
  const EpochMs late = sidecar_.clock.now() - kShort;
  std::vector<std::string> names;
  for (const auto& [queue, target] : targets_) {
    if (target.limit == nullptr || room(target, now) == 0) continue;
    const bool waits = std::ranges::any_of(target.limit->line, [&](const auto& entry) {
      const Oldest& waiting = entry.second->second.waiting;
      return !waiting.empty() && waiting.top().at <= late;
    });
    if (waits) names.push_back(sidecar_.names.name(queue));
  }
  return names;
}

}  // namespace rung::bridge
