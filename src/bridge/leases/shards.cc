#include "src/bridge/leases/shards.h"

#include <algorithm>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

// The longest that a leaving shard takes no new claims while a publish of it has no answer.
constexpr Ms kLeavingMost{3000};

// After another instance's lease has expired, spread so that we do not all start in the same millisecond.
constexpr Ms kAfterExpiry{20}, kMostSpread{300};
// While shards change hands: the first delay, which then grows up to a tenth of the lease.
constexpr Ms kHurry{50};

// How long to wait for the answer of our first cycle if SIGTERM comes while it is under way.
constexpr Ms kFirstCycleMost{1000};

}  // namespace

std::vector<int> HeldShards::list() const {
  std::vector<int> shards;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) shards.push_back(s);
  }
  return shards;
}

std::vector<Lease> HeldShards::leases() const {
  std::vector<Lease> leases;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) leases.push_back({s, slot(s).epoch});
  }
  return leases;
}

int HeldShards::next() {
  for (int i = 0; i < kShards; ++i) {
    const int shard = next_;
    next_ = (next_ + 1) % kShards;
    if (takes_work(shard)) return shard;
  }
  return -1;
}

void HeldShards::add(const Lease& lease) {
  remove(lease.shard);
  slot(lease.shard).epoch = lease.epoch;
  ++count_;
}

void HeldShards::remove(int shard) {
  if (slot(shard).epoch != 0) --count_;
  slot(shard) = {};
}

void HeldShards::clear() {
  slots_ = {};
  count_ = 0;
}

void HeldShards::plan_leaving(int many, bool all, BootMs now) {
  int leaving = 0;
  for (int s = kShards - 1; s >= 0; --s) {
    Slot& it = slot(s);
    if (it.epoch == 0) continue;
    const bool used = in_use(s);
    if (!all && it.leaving && used && now - it.leaving_since > kLeavingMost) it.stuck = true;
    it.stuck = it.stuck && used;
    const bool leaves = leaving < many && !it.stuck;
    if (leaves && !it.leaving) it.leaving_since = now;
    it.leaving = leaves;
    if (leaves) ++leaving;
  }
}

Ms Shards::random_up_to(Ms most) {
  return Ms{std::uniform_int_distribution<std::int64_t>(0, most.count())(dice_)};
}

void Shards::arm(const LeaseCycle* answer) {
  const Ms third = settings_.lease / 3, tenth = settings_.lease / 10;
  const BootMs now = clock_.here().boot();
  BootMs at = begun_ + third - random_up_to(third / 10);
  if (answer != nullptr && answer->next_expiry && !answer->memory.row_gone)
    at = std::min(at, *answer->next_expiry + kAfterExpiry + random_up_to(std::min(kMostSpread, tenth)));
  if (answer != nullptr && answer->unsettled) {
    hurry_ = std::clamp(hurry_ * 2, kHurry, std::max(tenth, kHurry));
    at = std::min(at, now + hurry_);
  } else {
    hurry_ = Ms{0};
  }
  if (answer != nullptr && answer->link != state_.link) at = now;  // the others should learn of it at once
  timer_.start(std::max(at - now, Ms{1}));
}

Shards::Shards(io::Loop& loop, StoreJobs& jobs, DbClock& clock, LeaseSettings settings, Listener listener)
    : jobs_(jobs),
      clock_(clock),
      settings_(std::move(settings)),
      listener_(std::move(listener)),
      dice_(static_cast<std::minstd_rand::result_type>(settings_.identity.incarnation)),
      timer_(loop, [this] { begin_cycle(); }),
      leave_timer_(loop, [this] { give_back(); }) {}

void Shards::start() {
  if (!std::exchange(started_, true) && !leaving_) timer_.start(Ms{0});
}

void Shards::set_link(BrokerLink link) {
  if (std::exchange(state_.link, link) == link || !started_ || leaving_) return;
  if (!cycling_) timer_.start(Ms{0});  // tell the others
}

void Shards::refused() {
  if (!std::exchange(refused_, true) && !cycling_ && !leaving_) timer_.start(Ms{0});
}

TaskId Shards::new_id(EpochMs now) {
  RUNG_REQUIRE(node() != 0);
  if (!ids_) ids_ = std::make_unique<IdSource>(node());
  return ids_->next(now);
}

void Shards::begin_cycle() {
  cycling_ = true;
  begun_ = clock_.here().boot();
  LeaseCycle cycle;
  static_cast<NodeState&>(cycle) = state_;
  for (const Lease& lease : held_.leases()) {
    const bool give_back = held_.leaving(lease.shard) && !held_.in_use(lease.shard);
    (give_back ? cycle.release : cycle.renew).push_back(lease);
  }
  const auto work = [cycle, settings = settings_, &here = clock_.here()](Store& store) {
    return perform_cycle(cycle, settings, here, store);
  };
  jobs_.submit<LeaseCycle>(Lane::leases, work, [this](const Result<LeaseCycle>& result) {
    cycling_ = false;
    if (leaving_) {  // shards it took are given back with the rest
      if (result) state_.node = result->node;
      if (left_) give_back();
      return;
    }
    if (result) {
      end_cycle(*result);
    } else if (!result.error().is_transient()) {
      log::error("lease renewal failed", {{"reason", result.error().message}});
    }
    if (result && result->name_taken) return;  // no further cycle
    arm(result ? &*result : nullptr);
  });
}

void Shards::end_cycle(const LeaseCycle& cycle) {
  state_.memory.row_gone = cycle.memory.row_gone;
  if (state_.memory.row_gone) return;  // if this lasts, the fence closes by itself
  if (node() != cycle.node) ids_.reset();
  state_.node = cycle.node;
  state_.memory = cycle.memory;
  if (cycle.name_taken) {
    listener_.publish_until({0});
    listener_.name_taken();
    return;
  }
  notice(cycle);
  clock_.measured(cycle.clock.db, cycle.clock.sent, cycle.clock.received);
  const std::vector<int> lost = apply(cycle);
  if (!cycle.release.empty())
    log::info("shards released", {{"given", cycle.release.size()}, {"held", count()}, {"of", kShards}});
  if (!lost.empty()) {
    log::warn("leases lost",
              {{"shards", lost.size()}, {"held", count() - static_cast<int>(cycle.gained.size())}});
    listener_.lost(lost);
  }
  // A margin for the time from the check to the socket, and for clock drift.
  const Ms margin = settings_.lease / 10;
  // Stepping back closes the fence: messages that wait for the broker return unsent, and their shards can go.
  const bool open = any() && !stepped_back_;
  listener_.publish_until(open ? cycle.sent + settings_.lease - margin : BootMs{0});
  if (!cycle.gained.empty())
    log::info("shards acquired", {{"taken", cycle.gained.size()}, {"held", count()}, {"of", kShards}});
  if (std::exchange(refused_, false) || !cycle.gained.empty()) listener_.gained(cycle.gained);
}

std::vector<int> Shards::apply(const LeaseCycle& cycle) {
  std::vector<int> lost;
  if (cycle.restored) {
    lost = held_.list();
    held_.clear();
  }
  for (const Lease& lease : cycle.release) held_.remove(lease.shard);
  for (const Lease& lease : cycle.renew) {
    const bool still = std::ranges::find(cycle.held, lease) != cycle.held.end();
    if (still || held_.epoch(lease.shard) != lease.epoch) continue;
    held_.remove(lease.shard);
    lost.push_back(lease.shard);
  }
  for (const Gained& g : cycle.gained) held_.add(g.lease);
  if (cycle.stepped_back != stepped_back_) step_back(cycle.stepped_back);
  held_.plan_leaving(cycle.surplus, stepped_back_, clock_.here().boot());
  return lost;
}

void Shards::notice(const LeaseCycle& cycle) {
  if (cycle.restored) listener_.noticed({Notice::Kind::restored, *cycle.restored});
  const auto ms = clock_step_.see(cycle.clock);
  if (!ms) return;
  listener_.noticed({Notice::Kind::clock_stepped,
                     (*ms > 0 ? "forward by " : "back by ") + std::to_string(*ms > 0 ? *ms : -*ms) + " ms"});
}

void Shards::step_back(bool yes) {
  stepped_back_ = yes;
  if (yes) {
    log::warn("cannot publish, another instance can: releasing all shards", {{"held", count()}});
  } else {
    log::info("acquiring shards again", {{"held", count()}});
  }
}

void Shards::leave(std::function<void()> done) {
  leaving_ = true;
  left_ = std::move(done);
  timer_.stop();
  listener_.publish_until({0});  // from here on others may own the shards
  held_.clear();
  // Our first cycle is under way: only its answer has our node number. But do not wait long for a database
  // that is away.
  if (node() == 0 && cycling_) return leave_timer_.start(kFirstCycleMost);
  give_back();
}

void Shards::give_back() {
  leave_timer_.stop();
  const std::function<void()> done = std::exchange(left_, nullptr);
  if (node() == 0) return done();
  const auto work = [node = node(), incarnation = settings_.identity.incarnation](Store& store) {
    store.leave(node, incarnation);
  };
  jobs_.submit<void>(Lane::leases, work, [done](const Result<void>&) { done(); });
}

}  // namespace rung::bridge
