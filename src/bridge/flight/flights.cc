#include "src/bridge/flight/flights.h"

#include <algorithm>
#include <utility>

#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t place_of(Flight::Stage stage) { return static_cast<std::size_t>(stage); }

constexpr bool may_follow(Flight::Stage stage, Flight::Stage next) {
  using enum Flight::Stage;
  switch (stage) {
    case gone:
      return next == waiting;
    case waiting:
      return next == waiting || next == claiming || next == gone;
    case claiming:
      return next == unread || next == reading || next == gone;
    case unread:
      return next == reading || next == gone;
    case reading:
      return next == held || next == sent || next == recording || next == gone;
    case held:
      return next == sent || next == recording || next == gone;
    case sent:
      return next == recording;
    case recording:
      return next == gone;
  }
  return false;
}

constexpr bool uses_shard(Flight::Stage stage) { return stage >= Flight::Stage::claiming; }
constexpr bool is_under_way(Flight::Stage stage) {
  return uses_shard(stage) && stage != Flight::Stage::recording;
}
constexpr bool has_message(Flight::Stage stage) {
  return stage == Flight::Stage::held || stage == Flight::Stage::sent;
}

using How = PublishResult::How;

constexpr std::size_t kSmallBacklog = 500;  // this many overdue tasks delay no others
// A silent queue in quarantine may get every probe's message once it recovers, so probes are few.
constexpr Ms kFirstProbePause{2000};
constexpr Ms kLongestProbePause{60'000};
constexpr Ms kRemembered{60'000};      // how long an idle target's window is remembered
constexpr std::size_t kPerTurn = 100;  // of one target before the next one's turn
constexpr Ms kStallTimeout{10'000};    // without any answer
constexpr Ms kLongestStallTimeout{60'000};
constexpr Ms kProbeTimeout{2000};
// Tasks of one queue that are kept in memory behind a closed gate: enough to begin with when it opens.
constexpr std::size_t kKeptBehindGate = 5000;
constexpr std::size_t kMostHeld = 50'000;  // and of all of them
// Tasks that need tokens, kept in memory: of one queue at most, of each queue even if the others use up the
// limit of all, and that limit as a multiple of most_held_.
constexpr std::size_t kMostLimited = 200'000, kFewLimited = 100, kLimitedForHeld = 5;
constexpr std::size_t kMostSilentNamed = 5;  // in the problem's detail

}  // namespace

Flights::Table::iterator Flights::at(TaskId id, Stage stage) {
  const auto it = flights_.find(id);
  RUNG_REQUIRE(it != flights_.end() && it->second.stage == stage);
  return it;
}

void Flights::move(Flight& flight, Stage to) {
  const Stage from = std::exchange(flight.stage, to);
  RUNG_REQUIRE(may_follow(from, to));
  if (from != Stage::gone) --stages_[place_of(from)];
  if (to != Stage::gone) ++stages_[place_of(to)];
  if (uses_shard(to) && !uses_shard(from)) sidecar_.shards.begin_use(flight.shard);
  if (uses_shard(from) && !uses_shard(to)) sidecar_.shards.end_use(flight.shard);
  if (has_message(to) && !has_message(from)) bytes_ += flight.claim->bytes;
  if (has_message(from) && !has_message(to)) bytes_ -= flight.claim->bytes;
  if (is_under_way(to) == is_under_way(from)) return;
  if (is_under_way(to)) {
    ++under_way_;
    flight.lane = targets_.begin(flight.queue);
  } else {
    --under_way_;
    targets_.end(flight.queue);
  }
}

void Flights::remove(Table::iterator it) {
  const TaskId id = it->first;
  const bool was_claimed = it->second.stage >= Stage::claiming;
  move(it->second, Stage::gone);
  flights_.erase(it);
  RUNG_REQUIRE(!flights_.empty() || (under_way_ == 0 && bytes_ == 0));
  if (was_claimed) sidecar_.transitions.published(id);
}

void Flights::add(const io::DueItem& item, bool again) {
  Flight& flight = flights_[item.id];
  move(flight, Stage::waiting);
  flight.queue = item.queue;
  flight.shard = static_cast<std::int16_t>(item.shard);
  flight.again = again;
}

bool Flights::begin_claim(const io::DueItem& item) {
  const auto it = flights_.find(item.id);
  if (it == flights_.end() || !waits(it->second, item)) return false;
  const bool ours = sidecar_.shards.held(item.shard);
  if (ours) {
    move(it->second, Stage::claiming);
  } else {
    remove(it);  // its owner's heap or sweep has it
  }
  return ours;
}

Flight& Flights::claimed(TaskId id, Decision&& decision, std::size_t bytes, bool reads) {
  Flight& flight = at(id, Stage::claiming)->second;
  RUNG_REQUIRE(decision.verdict == Decision::Verdict::applied && decision.task.id == id);
  if (flight.shard != decision.task.shard) {  // a change of the task has moved it while it waited here
    sidecar_.shards.end_use(std::exchange(flight.shard, static_cast<std::int16_t>(decision.task.shard)));
    sidecar_.shards.begin_use(flight.shard);
  }
  flight.claim = std::make_unique<Claim>(
      Claim{std::make_shared<const Task>(std::move(decision.task)), bytes, decision.claimed_again, nullptr});
  move(flight, reads ? Stage::reading : Stage::unread);
  return flight;
}

void Flights::hold(Flight& flight, MessagePtr message) {
  RUNG_REQUIRE(message != nullptr);
  move(flight, Stage::held);
  flight.claim->message = std::move(message);
}

void Flights::send(Flight& flight, BootMs now) {
  move(flight, Stage::sent);
  flight.claim->message.reset();  // the broker gets it
  targets_.sent(flight.queue, now);
}

void Flights::answered(Flight& flight, PublishResult::How how, BootMs now) {
  RUNG_REQUIRE(flight.stage == Stage::sent);
  targets_.answered(flight.queue, how, now);
  move(flight, Stage::recording);
}

void Flights::unsendable(Flight& flight) {
  RUNG_REQUIRE(flight.stage != Stage::sent);
  move(flight, Stage::recording);
  flight.claim->message.reset();
}

void Flights::release(const Flight& flight) {
  RUNG_REQUIRE(flight.stage >= Stage::unread && flight.stage < Stage::sent);
  remove(at(flight.claim->task->id, flight.stage));
}

void Flights::end(TaskId id) { remove(at(id, Stage::recording)); }

void Flights::drop(TaskId id) {
  const auto it = flights_.find(id);
  if (it != flights_.end() && it->second.stage < Stage::claiming) remove(it);
}

void Flights::drop_unclaimed() {
  for (auto it = flights_.begin(); it != flights_.end();) {
    const auto here = it++;
    if (here->second.stage < Stage::claiming) remove(here);
  }
}

// --- those that wait

Targets::Targets(const Sidecar& sidecar, Flights& flights, std::size_t most, std::size_t first_window)
    : sidecar_(sidecar),
      flights_(flights),
      most_(std::max(most, first_window)),
      first_window_(first_window),
      most_held_(std::min(kMostHeld, sidecar.settings.max_loaded / 10)),
      began_(sidecar.loop.clock().boot()),
      stall_timeout_(kStallTimeout) {}

Targets::Target& Targets::at(std::uint32_t queue) {
  const auto [place, fresh] = targets_.try_emplace(queue);
  if (fresh) place->second.window = first_window_;
  if (fresh) place->second.closed = is_shut(queue);
  return place->second;
}

bool Targets::is_shut(std::uint32_t queue) const {
  return sidecar_.gates.why_closed(sidecar_.names.name(queue)) != nullptr && !planted(Bug::pause_forgotten);
}

double Targets::ramp(std::uint32_t queue) const {
  const GateState* state = sidecar_.gates.state(sidecar_.names.name(queue));
  return state == nullptr ? 1.0 : ramp_up(state->breaker, sidecar_.clock.now());
}

// The rate limits the queue across all instances: each gets a share in proportion to its shards.
double Targets::catch_up(std::uint32_t queue) const {
  const double all = sidecar_.rules->queue(sidecar_.names.name(queue)).catch_up;
  return all * sidecar_.shards.count() / kShards * ramp(queue);
}

void Targets::add(const io::DueItem& item, bool overdue) {
  Target& target = at(item.queue);
  (overdue ? target.overdue : target.fresh).push(item);
  ++counter_of(target);
}

void Targets::sort_out(EpochMs now) {
  for (auto& [queue, target] : targets_) sort_out(target, now);
}

void Targets::sort_out(Target& target, EpochMs now) {
  while (!target.fresh.empty() && now - target.fresh.top().at > kOverdueAfter) {
    target.overdue.push(target.fresh.top());
    target.fresh.pop();
  }
}

bool Targets::is_closed(std::uint32_t queue) const {
  const auto it = targets_.find(queue);
  return it == targets_.end() ? is_shut(queue) : it->second.closed;
}

bool Targets::is_full(std::uint32_t queue) const {
  if (queue == QueueNames::kNone) return true;
  const auto it = targets_.find(queue);
  if (it == targets_.end()) return false;
  const Target& target = it->second;
  const std::size_t kept = target.waiting() + target.limited();
  // One of each queue in any case: a breaker's probe is a task that waits here.
  if (target.closed) return kept >= kKeptBehindGate || (kept > 0 && held_ >= most_held_);
  if (target.limited() < kFewLimited) return false;
  return limited_ >= most_held_ * kLimitedForHeld || target.limited() >= kMostLimited ||
         target.limit->line.size() >= Limit::kMostValues;
}

void Targets::leave(std::uint32_t queue) {
  const auto it = targets_.find(queue);
  if (it != targets_.end() && it->second.closed) it->second.left = true;
}

bool Targets::gate_changed(std::uint32_t queue, EpochMs now) {
  const auto it = targets_.find(queue);
  if (it == targets_.end()) return false;
  Target& target = it->second;
  if (target.limit != nullptr) target.limit->next = {};
  const bool closes = is_shut(queue);
  if (std::exchange(target.closed, closes) != closes) {
    (closes ? held_ : waiting_) += target.waiting();
    (closes ? waiting_ : held_) -= target.waiting();
    if (!closes) sort_out(target, now);
  }
  if (ramp(queue) < 1.0) {
    for (; !target.fresh.empty(); target.fresh.pop()) target.overdue.push(target.fresh.top());
  }
  if (!closes) return std::exchange(target.left, false);
  const std::size_t others = held_ - target.waiting();
  keep_oldest(target, std::clamp(most_held_ - std::min(most_held_, others), std::size_t{1}, kKeptBehindGate));
  return false;
}

void Targets::keep_oldest(Target& target, std::size_t most) {
  if (target.waiting() <= most) return;
  target.left = true;
  held_ -= target.waiting();
  for (Oldest* waiting : {&target.overdue, &target.fresh}) {  // what is overdue is older
    Oldest kept;
    for (; !waiting->empty(); waiting->pop()) {
      if (most > 0) {
        kept.push(waiting->top());
        --most;
      } else if (flights_.waits(waiting->top())) {  // else it has moved to another queue
        flights_.drop(waiting->top().id);
      }
    }
    *waiting = std::move(kept);
  }
  held_ += target.waiting();
}

void Targets::forget(std::uint32_t queue) {
  const auto it = targets_.find(queue);
  if (it == targets_.end()) return;
  const Target& target = it->second;
  RUNG_REQUIRE(!target.waits() && target.limited() == 0 && target.under_way == 0 && target.unanswered == 0);
  targets_.erase(it);
}

void Targets::each_in_use(BootMs now, const std::function<void(std::uint32_t)>& tell) const {
  for (const auto& [queue, t] : targets_) {
    if (t.waits() || t.limited() > 0 || t.under_way > 0 || t.unanswered > 0 || t.quarantined ||
        t.closed_until > now)
      tell(queue);
  }
}

io::DueItem Targets::pop(Target& target, Oldest& from) {
  const io::DueItem item = from.top();
  from.pop();
  RUNG_REQUIRE(counter_of(target) > 0);
  --counter_of(target);
  return item;
}

std::optional<Taken> Targets::take_oldest(Target& target) {
  while (target.waits()) {
    const io::DueItem item = pop(target, target.overdue.empty() ? target.fresh : target.overdue);
    if (flights_.begin_claim(item)) return Taken{item};
  }
  return std::nullopt;
}

void Targets::begin_probe(std::uint32_t queue, BootMs now) {
  probing_ = queue;
  probing_since_ = now;
}

bool Targets::has_gate_probe(std::uint32_t queue, BootMs now) const {
  const auto it = targets_.find(queue);
  if (it == targets_.end()) return false;
  const Target& target = it->second;
  if (!target.waits() && target.limited() == 0) return false;
  if (target.closed_until > now || is_silent(target, now, kSilent)) return false;
  return !target.quarantined || (!probing_ && target.under_way == 0 && target.probe_at <= now);
}

std::optional<Taken> Targets::take_gate_probe(std::uint32_t queue, BootMs now) {
  if (!has_gate_probe(queue, now)) return std::nullopt;
  Target& target = targets_.at(queue);
  auto taken = take_oldest(target);
  while (!taken && target.limited() > 0) {
    Value* oldest = nullptr;
    for (auto& [value, of] : target.limit->values) {
      if (of.waiting.empty()) continue;
      if (oldest == nullptr || of.waiting.top().at < oldest->waiting.top().at) oldest = &of;
    }
    if (oldest == nullptr) break;  // their values are being read
    if (const auto item = take_oldest(*target.limit, *oldest)) taken = Taken{*item};
  }
  if (taken && target.quarantined) begin_probe(queue, now);
  return taken;
}

std::size_t Targets::room(const Target& target, BootMs now) const {
  if (target.closed || target.closed_until > now || target.quarantined) return 0;
  if (target.unanswered > 0 && now - target.heard_at > kSilent) return 0;
  const std::size_t room = target.window > target.under_way ? target.window - target.under_way : 0;
  // Taking a few at each answer would make many small transactions: wait until a quarter is free or all
  // waiting tasks fit.
  const bool all = target.waiting() <= room;
  return all || room * 4 >= target.window ? room : 0;
}

std::size_t Targets::take_from(Target& target, std::size_t most, BootMs now, std::vector<Taken>& out) {
  std::size_t taken = 0;
  const auto one = [&](Oldest& from) {
    const io::DueItem item = pop(target, from);
    if (!flights_.begin_claim(item)) return false;
    out.push_back({item});
    ++taken;
    return true;
  };
  // The oldest first. But while fresh tasks wait, a large backlog gets at most half of a turn: neither
  // starves.
  const bool all = target.fresh.empty() || target.overdue.size() <= kSmallBacklog;
  const std::size_t overdue_most = all ? most : (most + 1) / 2;
  while (taken < overdue_most && !target.overdue.empty() && target.catching_up.has()) {
    if (one(target.overdue)) target.catching_up.take();
  }
  while (taken < most && !target.fresh.empty()) one(target.fresh);
  for (; taken < most && target.limit != nullptr; ++taken) {
    auto next = take_limited(*target.limit, now);
    if (!next) break;
    out.push_back(*std::move(next));
  }
  return taken;
}

std::vector<Taken> Targets::take(std::size_t most, BootMs now) {
  std::vector<Taken> out;
  if (targets_.empty()) return out;
  for (auto& [queue, target] : targets_) {
    if (!target.overdue.empty()) target.catching_up.fill(catch_up(queue), now);
    target.may_go = room(target, now);
  }
  bool more = true;
  auto next = targets_.lower_bound(turn_);
  while (more && out.size() < most) {
    more = false;
    for (std::size_t i = 0; i < targets_.size() && out.size() < most; ++i) {
      if (next == targets_.end()) next = targets_.begin();
      Target& target = next->second;
      if (target.waits() || target.limited() > 0) {
        const std::size_t turn = std::min({target.may_go, kPerTurn, most - out.size()});
        const std::size_t went = turn > 0 ? take_from(target, turn, now, out) : 0;
        target.may_go -= went;
        more = more || went > 0;
      }
      ++next;
    }
  }
  turn_ = next == targets_.end() ? 0 : next->first;
  return out;
}

std::optional<Taken> Targets::take_probe(BootMs now) {
  while (!probing_) {
    std::pair<const std::uint32_t, Target>* next = nullptr;
    for (auto& entry : targets_) {
      const Target& t = entry.second;
      if (t.closed || !t.quarantined || t.under_way > 0 || t.probe_at > now) continue;
      if (!t.waits() && (t.limit == nullptr || !t.limit->has_token(now))) continue;
      if (next == nullptr || t.probe_at < next->second.probe_at) next = &entry;
    }
    if (next == nullptr) return std::nullopt;
    Target& target = next->second;
    auto taken = target.waits() ? take_oldest(target) : take_limited(*target.limit, now);
    if (taken) begin_probe(next->first, now);
    if (taken) return taken;
  }
  return std::nullopt;
}

void Targets::check(bool publishing) {
  const BootMs now = sidecar_.loop.clock().boot();
  if (publishing && sidecar_.outbox.under_way() > 0) {
    if (now - sidecar_.outbox.heard_at() <= kStallTimeout) {
      quarantine(now, kStallTimeout);
    } else {
      drop_stalled_connection(now);
    }
  }
  // While nothing is published, nothing is answered either.
  if (publishing) report(now);
  if (probing_ && now - probing_since_ > kProbeTimeout)
    sidecar_.broker.drop_publishing(PublishLane::probe, "the probed queue does not answer");
}

void Targets::drop_stalled_connection(BootMs now) {
  const Ms silent = now - sidecar_.outbox.heard_at();
  if (silent <= stall_timeout_ || probing_) return;
  const auto silent_targets = std::ranges::count_if(
      targets_, [&](const auto& entry) { return is_silent(entry.second, now, stall_timeout_); });
  // A copy for <prefix>.parked belongs to no target, but waits like them.
  const bool copies_wait = sidecar_.outbox.under_way() > flights_.count(Flight::Stage::sent);
  if (silent_targets == 0 || (silent_targets == 1 && !copies_wait)) return;
  log::warn("no answer to publishes to several queues: reconnecting, then probing each queue alone",
            {{"silent_ms", silent.count()}, {"under_way", sidecar_.outbox.under_way()}});
  quarantine(now, stall_timeout_);
  stall_timeout_ = std::min(stall_timeout_ * 2, kLongestStallTimeout);
  sidecar_.broker.drop_publishing(PublishLane::main, "no answer to any publish for too long");
}

void Targets::report(BootMs now) {
  std::size_t many = 0;
  std::string named;
  for (auto& [queue, target] : targets_) {
    const std::string& name = sidecar_.names.name(queue);
    if (!target.quarantined && !is_silent(target, now, kStallTimeout)) {
      if (const auto since = std::exchange(target.reported, std::nullopt))
        log::info("queue answers publishes again", {{"queue", name}, {"silent_ms", (now - *since).count()}});
      continue;
    }
    if (!target.reported) {
      target.reported = target.heard_at;
      log::warn("queue does not answer publishes: it gets no more until it does",
                {{"queue", name},
                 {"unanswered", target.unanswered},
                 {"silent_ms", (now - target.heard_at).count()}});
    }
    if (++many <= kMostSilentNamed) named += (named.empty() ? "" : ", ") + name;
  }
  if (many == 0) return sidecar_.health.clear("silent_queues");
  if (many > kMostSilentNamed) named += " and " + std::to_string(many - kMostSilentNamed) + " more";
  sidecar_.health.set("silent_queues", "no answer to publishes to " + named +
                                           ": messages for it wait until the broker confirms again");
}

void Targets::quarantine(BootMs now, Ms most) {
  for (auto& [queue, target] : targets_) {
    if (target.quarantined || !is_silent(target, now, most)) continue;
    target.quarantined = true;
    target.probe_at = {0};
    target.probe_pause = Ms{0};
  }
}

void Targets::begin_silence(BootMs now) {
  for (auto& [queue, target] : targets_) target.heard_at = now;
}

PublishLane Targets::begin(std::uint32_t queue) {
  Target& target = at(queue);
  ++target.under_way;
  return target.quarantined ? PublishLane::probe : PublishLane::main;
}

void Targets::end(std::uint32_t queue) {
  Target& target = at(queue);
  RUNG_REQUIRE(target.under_way > 0);
  --target.under_way;
  if (probing_ == queue) probing_.reset();
}

void Targets::sent(std::uint32_t queue, BootMs now) {
  Target& target = at(queue);
  if (target.unanswered++ == 0) target.heard_at = now;
  if (!target.quarantined) return;
  // The probe was sent. A task that another instance had taken by then never gets here and counts as no
  // probe.
  target.probe_pause = std::clamp(target.probe_pause * 2, kFirstProbePause, kLongestProbePause);
  target.probe_at = now + target.probe_pause;
}

void Targets::answered(std::uint32_t queue, How how, BootMs now) {
  Target& target = at(queue);
  RUNG_REQUIRE(target.unanswered > 0);
  --target.unanswered;
  target.heard_at = now;
  if (how != How::lost && how != How::fenced) target.quarantined = false;
  switch (how) {
    case How::confirmed:
      stall_timeout_ = kStallTimeout;
      [[fallthrough]];
    case How::returned:
    case How::rejected:
      target.window = std::min(target.window + 1, most_);
      return;
    case How::nacked:
      target.window = first_window_;
      target.closed_until = now + kRefusedPause;
      return;
    case How::lost:
    case How::fenced:
      target.window = first_window_;
      return;
  }
}

void Targets::clear() {
  for (auto& [queue, target] : targets_) {
    target.fresh = target.overdue = {};
    target.limit.reset();
  }
  waiting_ = held_ = limited_ = 0;
}

Targets::Summary Targets::summary() const {
  Summary out;
  for (const auto& [queue, target] : targets_) {
    out.window += target.window;
    out.quarantined += target.quarantined ? 1 : 0;
  }
  return out;
}

void Targets::tidy(BootMs now) {
  for (auto& [queue, target] : targets_) {
    if (target.limit != nullptr) forget_unused(*target.limit, false, now);
  }
  std::erase_if(targets_, [&](const auto& entry) {
    const Target& t = entry.second;
    return !remembers_tokens(entry.first, t, now) && !t.waits() && !t.left && t.under_way == 0 &&
           !t.quarantined && t.closed_until <= now && now - t.heard_at > kRemembered;
  });
}

}  // namespace rung::bridge
