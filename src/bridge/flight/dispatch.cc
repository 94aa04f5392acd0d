#include "src/bridge/flight/dispatch.h"

#include <algorithm>
#include <utility>

#include "src/bridge/base/health.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/gates.h"
#include "src/core/gates/gates.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostJobs = 2;
constexpr std::size_t kBytesUnderWay = 64UL * 1024 * 1024;  // bodies in memory for the broker
constexpr Ms kLinger{25};                                   // well below kAhead
// How often to check a rate while a task waits for it. The more tasks go together, the fewer transactions.
constexpr Ms kRateTurn{20};

// One target gets at most three quarters, so that there is room for another.
std::size_t share_of(int most) { return static_cast<std::size_t>(most - most / 4); }

}  // namespace

Dispatch::Dispatch(const Sidecar& sidecar)
    : sidecar_(sidecar),
      most_under_way_(static_cast<std::size_t>(sidecar.settings.max_unconfirmed)),
      targets_(sidecar, flights_, share_of(sidecar.settings.max_unconfirmed),
               sidecar.broker.limits().first_window),
      flights_(sidecar, targets_),
      publishing_(sidecar, unable_, flights_, targets_),
      linger_(sidecar.loop, kLinger, [this] { pump(); }),
      again_(sidecar.loop, [this] { pump(); }) {}

void Dispatch::due(const std::vector<io::DueItem>& items) {
  const EpochMs now = sidecar_.clock.now();
  for (const io::DueItem& item : items) {
    sidecar_.gates.see(sidecar_.names.name(item.queue));
    if (targets_.is_full(item.queue)) {
      targets_.leave(item.queue);
    } else {
      take_in(item, now, false);
    }
  }
  pump_soon(items, now);
}

void Dispatch::due_again(const std::vector<io::DueItem>& items) {
  if (draining_) return;
  const EpochMs now = sidecar_.clock.now();
  for (const io::DueItem& item : items) take_in(item, now, true);
  pump_soon(items, now);
}

void Dispatch::take_in(const io::DueItem& item, EpochMs now, bool again) {
  if (flights_.contains(item)) return;
  flights_.add(item, again);
  if (!again && targets_.is_limited(item.queue)) return targets_.add_limited(item);
  bool overdue = false;
  if (now - item.at > kOverdueAfter) {
    // Tasks that became due in normal operation, late only because there are many, are no backlog of an
    // outage. What waited behind a gate is one.
    overdue = item.at < able_since_ || sidecar_.gates.was_closed(sidecar_.names.name(item.queue), item.at);
  }
  targets_.add(item, overdue || targets_.ramp(item.queue) < 1.0);
}

void Dispatch::pump_soon(const std::vector<io::DueItem>& items, EpochMs now) {
  if (std::ranges::any_of(items, [&](const auto& item) { return item.at - now < kAhead / 2; }))
    linger_.skip();
  // Deferred: after a pause many slots fire in one turn, not always oldest first, and all belong in one
  // claim.
  if (std::exchange(pump_posted_, true)) return;
  sidecar_.loop.post([this] {
    pump_posted_ = false;
    pump();
  });
}

void Dispatch::open(bool publishing) {
  if (publishing && !open_) {
    able_since_ = sidecar_.clock.now();
    if (shut_at_.ms != 0) unable_.add(std::exchange(shut_at_, {}), able_since_);
    targets_.sort_out(able_since_);
    // Don't count the time of an alarm or an outage as a target's silence.
    sidecar_.outbox.begin_silence();
    targets_.begin_silence(sidecar_.loop.clock().boot());
  }
  if (!publishing) shut();
  open_ = publishing;
  pump();
}

void Dispatch::shut() {
  if (open_) shut_at_ = sidecar_.clock.now();
  open_ = false;
}

void Dispatch::gates_changed(const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) {
    if (targets_.gate_changed(sidecar_.names.find(queue), sidecar_.clock.now())) opened_ = true;
  }
  pump();
}

void Dispatch::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  flights_.each_queue(tell);
  targets_.each_in_use(sidecar_.loop.clock().boot(), tell);
}

void Dispatch::forget(std::uint32_t queue, const std::string& name) {
  targets_.forget(queue);
  sidecar_.gates.unsee(name);
}

void Dispatch::names_short(bool yes) {
  const std::string most = std::to_string(QueueNames::kMost);
  const std::string problem =
      "more than " + most +
      " queues that the config does not name have waiting tasks: those of further ones are late";
  if (sidecar_.health.show("queue_names", yes ? problem : ""))
    log::warn("too many queues have waiting tasks: those of further ones wait in the database",
              {{"queues", sidecar_.names.others()}});
}

bool Dispatch::can_probe(const std::string& queue) const {
  const std::uint32_t number = sidecar_.names.find(queue);
  return can_send() && targets_.waiting(number) > 0 &&
         targets_.takes_gate_probe(number, sidecar_.loop.clock().boot());
}

bool Dispatch::send_probe(const std::string& queue, int probe) {
  if (!can_send()) return false;
  auto taken = targets_.take_gate_probe(sidecar_.names.find(queue), sidecar_.loop.clock().boot());
  if (!taken) return false;
  taken->probe = probe;
  publishing_.claim({*std::move(taken)});
  return true;
}

void Dispatch::shards_gained() {
  able_since_ = sidecar_.clock.now();
  pump();
}

void Dispatch::drain() {
  draining_ = true;
  again_.stop();
  targets_.clear();
  flights_.drop_unclaimed();
  publishing_.drain();
}

std::size_t Dispatch::room() const {
  const std::size_t used = flights_.under_way();
  return used >= most_under_way_ ? 0 : most_under_way_ - used;
}

void Dispatch::pump() {
  again_.stop();
  if (!can_send()) return;
  const BootMs now = sidecar_.loop.clock().boot();
  const auto job_fits = [this] {
    return publishing_.jobs() < kMostJobs && flights_.bytes() < kBytesUnderWay;
  };
  while (job_fits() && publishing_.has_unfetched()) publishing_.fetch();
  std::optional<BootMs> token = targets_.next_token(now);
  const auto may_go = [&] { return !targets_.empty() || (token && *token <= now); };
  while (job_fits() && !publishing_.has_unfetched() && may_go()) {
    const std::size_t before = publishing_.jobs();
    if (auto probe = targets_.take_probe(sidecar_.loop.clock().boot()))
      publishing_.claim({*std::move(probe)});
    claim_next();
    if (publishing_.jobs() == before) break;
    token = targets_.next_token(now);
  }
  if (room() == 0) return;
  // There is room, but a rate or a pause blocks every target: try again soon. The answer of a claim pumps,
  // too, but tokens must not wait for it: a bucket saves up few.
  if (!targets_.empty() && publishing_.jobs() == 0) {
    again_.start(kRateTurn);
  } else if (token && publishing_.jobs() < kMostJobs) {
    again_.start(std::max(*token - now, kRateTurn));
  }
}

void Dispatch::tick() {
  targets_.tidy(sidecar_.loop.clock().boot());
  targets_.check(open_);
  targets_.rates_changed();  // the rate grows after a breaker has closed, and shards come and go
  publishing_.tick();
  pump();
}

void Dispatch::claim_next() {
  const double body = publishing_.mean_body_bytes();  // big bodies make small batches
  const auto by_bytes =
      static_cast<std::size_t>(std::clamp(static_cast<double>(Publishing::kMostBytes) / body, 1.0, 500.0));
  const std::size_t most = std::min({room(), Publishing::kMostTasks, by_bytes});
  // Claiming a few tasks while most of the window is taken would make many small transactions. If the whole
  // window is small, so are the claims.
  const std::size_t worth_it = std::min(Publishing::kMostTasks, most_under_way_) / 4;
  if (most == 0 || (most < worth_it && most < targets_.waiting() && most < by_bytes)) return;
  if (targets_.waiting() < Publishing::kMostTasks / 2 && linger_.hold()) return;
  publishing_.claim(targets_.take(most, sidecar_.loop.clock().boot()));
  linger_.end();
  if (!targets_.empty()) linger_.skip();  // the rest has waited already
}

}  // namespace rung::bridge
