#include "src/bridge/flight/dispatch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/gates/breaker.h"
#include "src/core/gates/gates.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostJobs = 2;
constexpr std::size_t kBytesUnderWay = 64UL * 1024 * 1024;  // bodies in memory for the broker
constexpr Ms kLinger{25};                                   // well below kAhead
// Tasks of one queue that are kept in memory behind a closed gate: enough to begin with when it opens.
constexpr std::size_t kKeptBehindGate = 5000;
constexpr Ms kRateTurn{20};  // how often to check a rate while a task waits for it

// One target gets at most three quarters, so that there is room for another.
std::size_t share_of(int most) { return static_cast<std::size_t>(most - most / 4); }

}  // namespace

Dispatch::Dispatch(Deps deps, int most_under_way, BrokerLimits limits)
    : deps_(std::move(deps)),
      most_under_way_(static_cast<std::size_t>(most_under_way)),
      targets_(share_of(most_under_way), limits.first_window,
               {[this](std::uint32_t queue) { return catch_up(queue); },
                [this](std::uint32_t queue) {
                  return deps_.gates.why_closed(deps_.names.name(queue)) != nullptr &&
                         !planted(Bug::pause_forgotten);
                },
                [this](const io::DueItem& item) { return flights_.begin_claim(item); }}),
      flights_(deps_.shards, targets_, deps_.transitions),
      stalls_(
          {deps_.broker, deps_.outbox, flights_, targets_, deps_.health, deps_.names, deps_.clock.here()}),
      publisher_({deps_, flights_, stalls_,
                  [this](const Flight& flight, PublishResult::How how) { unpublished(flight, how); }}),
      claims_({deps_, unable_, flights_, publisher_,
               [this] {
                 deps_.outbox.flush();
                 pump();
               },
               [this](std::uint32_t queue, const Permit& permit) { unused(queue, permit); }}),
      throttle_(deps_.loop,
                {deps_.jobs, deps_.clock, deps_.shards, deps_.names, deps_.gates, deps_.rules, flights_,
                 [this](const std::vector<io::DueItem>& items) {
                   for (const io::DueItem& item : items) targets_.add(item, false);
                   pump();
                 },
                 [this](std::uint32_t queue) -> std::size_t {
                   if (!open_ || draining_ || !deps_.shards.any()) return 0;
                   return targets_.room_for(queue, deps_.clock.here().boot());
                 },
                 std::min(Throttle::kMostInAll, deps_.most_held * 5)}),
      linger_(deps_.loop, kLinger, [this] { pump(); }),
      again_(deps_.loop, [this] { pump(); }) {}

// Below 1 if a breaker of the queue has just closed.
double Dispatch::ramp(std::uint32_t queue) const {
  const GateState* state = deps_.gates.state(deps_.names.name(queue));
  return state == nullptr ? 1.0 : ramp_up(state->breaker, deps_.clock.now());
}

// The rate limits the queue across all instances: each gets a share in proportion to its shards.
double Dispatch::catch_up(std::uint32_t queue) const {
  const double all = deps_.rules->queue(deps_.names.name(queue)).catch_up;
  return all * deps_.shards.count() / kShards * ramp(queue);
}

bool Dispatch::is_full(const io::DueItem& item) const {
  if (item.queue == QueueNames::kNone) return true;
  if (targets_.is_closed(item.queue)) {
    const std::size_t kept = targets_.waiting(item.queue) + throttle_.waiting(item.queue);
    // One of each queue in any case: a breaker's probe is a task that waits here.
    return kept >= kKeptBehindGate || (kept > 0 && targets_.held() >= deps_.most_held);
  }
  return throttle_.holds(item.queue) && throttle_.full(item.queue);
}

void Dispatch::due(const std::vector<io::DueItem>& items) {
  const EpochMs now = deps_.clock.now();
  for (const io::DueItem& item : items) {
    deps_.gates.see(deps_.names.name(item.queue));
    if (is_full(item)) {
      leave_in_database(item);
    } else {
      take_in(item, now, throttle_.holds(item.queue) ? Flight::Stage::throttled : Flight::Stage::waiting);
    }
  }
  pump_soon(items, now);
}

void Dispatch::leave_in_database(const io::DueItem& item) {
  if (targets_.is_closed(item.queue) && left_.size() < QueueNames::kMost)
    left_.insert(deps_.names.name(item.queue));
}

void Dispatch::due_again(const std::vector<io::DueItem>& items) {
  const EpochMs now = deps_.clock.now();
  // They have had their tokens.
  for (const io::DueItem& item : items) take_in(item, now, std::nullopt);
  pump_soon(items, now);
}

void Dispatch::take_in(const io::DueItem& item, EpochMs now, std::optional<Flight::Stage> stage) {
  if (flights_.contains(item)) return;
  bool overdue = false;
  if (now - item.at > kOverdueAfter) {
    // Tasks that became due in normal operation, late only because there are many, are no backlog of an
    // outage. What waited behind a gate is one.
    overdue = item.at < able_since_ || deps_.gates.was_closed(deps_.names.name(item.queue), item.at);
  }
  if (stage) {
    flights_.add(item, *stage);
  } else {
    flights_.add_again(item);
  }
  if (stage == Flight::Stage::throttled) {
    throttle_.add(item);
  } else {
    targets_.add(item, overdue || ramp(item.queue) < 1.0);
  }
}

void Dispatch::pump_soon(const std::vector<io::DueItem>& items, EpochMs now) {
  if (std::ranges::any_of(items, [&](const auto& item) { return item.at - now < kAhead / 2; }))
    linger_.skip();
  // Deferred: after a pause many slots fire in one turn, not always oldest first, and all belong in one
  // claim.
  if (std::exchange(pump_posted_, true)) return;
  deps_.loop.post([this] {
    pump_posted_ = false;
    pump();
  });
}

void Dispatch::open(bool publishing) {
  if (publishing && !open_) {
    able_since_ = deps_.clock.now();
    if (shut_at_.ms != 0) unable_.add(std::exchange(shut_at_, {}), able_since_);
    targets_.sort_out(able_since_);
    // Don't count the time of an alarm or an outage as a target's silence.
    deps_.outbox.begin_silence();
    targets_.begin_silence(deps_.clock.here().boot());
  }
  if (!publishing) shut();
  open_ = publishing;
  pump();
}

void Dispatch::shut() {
  if (open_) shut_at_ = deps_.clock.now();
  open_ = false;
}

void Dispatch::gates_changed(const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) {
    const bool closed = deps_.gates.why_closed(queue) != nullptr;
    if (!closed && left_.erase(queue) > 0) opened_ = true;
    const std::uint32_t number = deps_.names.find(queue);
    if (number == QueueNames::kNone) continue;
    if (closed) {
      close(queue, number);
    } else {
      targets_.close(number, false, deps_.clock.now());
    }
    if (ramp(number) < 1.0) targets_.hold_to_rate(number);
  }
  throttle_.changed();
  pump();
}

void Dispatch::close(const std::string& queue, std::uint32_t number) {
  targets_.close(number, true, deps_.clock.now());
  if (!targets_.is_closed(number)) return;
  const std::size_t mine = targets_.waiting(number);
  const std::size_t others = targets_.held() - mine;
  const std::size_t most =
      std::clamp(deps_.most_held - std::min(deps_.most_held, others), std::size_t{1}, kKeptBehindGate);
  if (mine <= most) return;
  targets_.keep_oldest(number, most, [this](const io::DueItem& item) {
    if (flights_.is(item, Flight::Stage::waiting))
      flights_.drop(item.id);  // else it has moved to another queue meanwhile
  });
  if (left_.size() < QueueNames::kMost) left_.insert(queue);
}

void Dispatch::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  flights_.each_queue(tell);
  throttle_.each_queue(tell);
  targets_.each_in_use(deps_.clock.here().boot(), tell);
}

void Dispatch::forget(std::uint32_t queue, const std::string& name) {
  targets_.forget(queue);
  deps_.gates.unsee(name);
}

void Dispatch::names_short(bool yes) {
  const std::string most = std::to_string(QueueNames::kMost);
  const std::string problem =
      "more than " + most +
      " queues that the config does not name have waiting tasks: those of further ones are late";
  if (deps_.health.show("queue_names", yes ? problem : ""))
    log::warn("too many queues have waiting tasks: those of further ones wait in the database",
              {{"queues", deps_.names.others()}});
}

bool Dispatch::can_probe(const std::string& queue) const {
  if (!open_ || draining_ || !deps_.shards.any()) return false;
  const std::uint32_t number = deps_.names.find(queue);
  return targets_.waiting(number) + throttle_.waiting(number) > 0 &&
         targets_.takes_gate_probe(number, deps_.clock.here().boot());
}

bool Dispatch::send_probe(const std::string& queue, int probe) {
  if (!can_probe(queue)) return false;
  const std::uint32_t number = deps_.names.find(queue);
  const BootMs now = deps_.clock.here().boot();
  std::optional<io::DueItem> taken;
  while (!(taken = targets_.take_gate_probe(number, now))) {
    if (targets_.waiting(number) > 0) return false;   // the target takes none
    const auto item = throttle_.take_oldest(number);  // may have moved, or its shard is another instance's
    if (!item) return false;
    targets_.add(*item, false);
  }
  flights_.make_probe(taken->id, probe);
  claims_.claim({*taken});
  return true;
}

void Dispatch::shards_gained() {
  able_since_ = deps_.clock.now();
  pump();
}

void Dispatch::drain() {
  draining_ = true;
  again_.stop();
  targets_.clear();
  throttle_.clear();
  flights_.drop_unclaimed();
  claims_.drain();
}

std::size_t Dispatch::room() const {
  const std::size_t used = flights_.under_way();
  return used >= most_under_way_ ? 0 : most_under_way_ - used;
}

void Dispatch::pump() {
  again_.stop();
  if (!open_ || draining_ || !deps_.shards.any()) return;
  const auto job_fits = [this] { return claims_.jobs() < kMostJobs && flights_.bytes() < kBytesUnderWay; };
  while (job_fits() && claims_.has_unfetched()) claims_.fetch();
  while (job_fits() && !claims_.has_unfetched() && !targets_.empty()) {
    const std::size_t before = claims_.jobs();
    probe();
    claim_next();
    if (claims_.jobs() == before) break;
  }
  // There is room, but a rate or a pause blocks every target: try again soon.
  if (!targets_.empty() && claims_.jobs() == 0 && room() > 0) again_.start(kRateTurn);
}

void Dispatch::tick() {
  targets_.tidy(deps_.clock.here().boot());
  stalls_.check(open_);
  throttle_.tick();
  claims_.tick();
  pump();
}

void Dispatch::probe() {
  const auto item = targets_.take_probe(deps_.clock.here().boot());
  if (item) claims_.claim({*item});
}

void Dispatch::unused(std::uint32_t queue, const Permit& permit) {
  if (permit.probe != 0) deps_.gates.unsent(deps_.names.name(queue), permit.probe);
  if (permit.value) throttle_.not_sent(queue, *permit.value);
}

void Dispatch::claim_next() {
  const double body = publisher_.mean_body_bytes();  // big bodies make small batches
  const auto by_bytes =
      static_cast<std::size_t>(std::clamp(static_cast<double>(Claims::kMostBytes) / body, 1.0, 500.0));
  const std::size_t most = std::min({room(), Claims::kMostTasks, by_bytes});
  // Claiming a few tasks while most of the window is taken would make many small transactions. If the whole
  // window is small, so are the claims.
  const std::size_t worth_it = std::min(Claims::kMostTasks, most_under_way_) / 4;
  if (most == 0 || (most < worth_it && most < targets_.waiting() && most < by_bytes)) return;
  if (targets_.waiting() < Claims::kMostTasks / 2 && linger_.hold()) return;
  claims_.claim(targets_.take(most, deps_.clock.here().boot()));
  linger_.end();
  if (!targets_.empty()) linger_.skip();  // the rest has waited already
}

// Lost or fenced: the message may be in the queue, or was not sent. Repeats the same attempt if the task is
// still ours. If the fence is closed, only the next renewal opens it.
void Dispatch::unpublished(const Flight& flight, PublishResult::How how) {
  const std::shared_ptr<const Task> task = flight.claim->task;
  if (how == PublishResult::How::fenced) shut();
  flights_.end(task->id);
  if (!draining_ && deps_.shards.held(task->shard))
    due_again({deps_.names.item(*task, task->next_at.value_or(deps_.clock.now()))});
}

}  // namespace rung::bridge
