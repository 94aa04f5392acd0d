#include "src/bridge/leases/shards.h"

#include <algorithm>

#include "src/core/base/failpoint.h"
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

// --- what a cycle does with the database, and who gets which shards

bool any_can_publish(const std::vector<NodeRow>& live) {
  return std::ranges::any_of(live, [](const NodeRow& n) { return n.link == BrokerLink::up; });
}

constexpr int kReadings = 5;
constexpr std::int64_t kQuickUs = 250;  // a reading that needs no better one

// The fastest of several readings: its duration is the clock's uncertainty, which may make every publish that
// late.
ClockReading read_clock(const Clock& here, Store& store) {
  ClockReading best;
  for (int i = 0; i < kReadings && (i == 0 || best.took() > kQuickUs); ++i) {
    ClockReading reading;
    reading.sent = here.boot_us();
    reading.db = store.clock();
    reading.received = here.boot_us();
    if (i == 0 || reading.took() < best.took()) best = reading;
  }
  return best;
}

Beat send_beat(LeaseCycle& c, const LeaseSettings& settings, const Clock& here, Store& store) {
  const NodeIdentity& identity = settings.identity;
  if (c.node == 0) c.node = store.register_node(identity, settings.lease);
  c.sent = here.boot();
  return store.heartbeat(c.node, identity.incarnation, settings.lease, c.problems, c.link, c.config);
}

// Each beat increments a count in our node's row. A row with a lower count than we know is an older one: the
// database was restored. Another process that takes our name continues the count and never removes the row;
// so a row that is missing, or belongs to another process now, means the same. But the row may be missing
// only briefly, while a dump is being loaded: registering then would conflict with the dump. If the beat
// shows that the database went back in time, takes the name again.
void look_back(LeaseCycle& c, const LeaseSettings& settings, const Clock& here, Store& store, Beat& beat) {
  const bool gone = beat.name != settings.identity.name;
  const bool known = c.memory.beats > 0;  // this process has sent a beat before
  if (!known || (!gone && beat.beats > c.memory.beats)) {
    c.memory.row_gone = false;
    return;
  }
  if (gone && !std::exchange(c.memory.row_gone, true)) return;  // check again in the next cycle
  c.restored = gone ? "the row of this node is gone from rung_nodes"
                    : "this node's heartbeat count is " + std::to_string(beat.beats) + ", but was " +
                          std::to_string(c.memory.beats) + " before";
  c.memory.row_gone = false;
  c.renew.clear();  // our leases differ from the database now
  c.release.clear();
  c.node = 0;  // registers again
  beat = send_beat(c, settings, here, store);
}

// The shards to take, without their epochs: always our own under an older epoch, then free and expired ones
// up to our share.
std::vector<Gained> shards_to_take(const LeaseCycle& c, const std::vector<ShardRow>& rows,
                                   const std::vector<NodeRow>& nodes, std::size_t share, Ms connection_death,
                                   BootMs boot) {
  std::vector<Gained> taken;
  const Ms wait = planted(Bug::takeover_without_waiting) ? Ms{0} : connection_death;
  const auto take = [&](const ShardRow& row, bool expired = false) {
    const auto since = expired ? c.db_now : row.taken_over_at;
    const Ms left = since ? std::clamp(*since + wait - c.db_now, Ms{0}, wait) : Ms{0};
    taken.push_back({{row.shard, 0}, boot + left, expired ? row.owner_name : ""});
  };
  for (const ShardRow& row : rows) {
    const bool is_held = std::ranges::find(c.held, row.shard, &Lease::shard) != c.held.end();
    if (row.owner == c.node && !is_held && !c.stepped_back) take(row);
  }
  // Each instance starts at a different place, so that simultaneous plans do not ask for the same shards.
  const std::vector<int> live = sharers(nodes);
  const auto place = static_cast<std::size_t>(std::ranges::find(live, c.node) - live.begin());
  const std::size_t first = place * rows.size() / std::max<std::size_t>(live.size(), 1);
  // While no instance can publish, all keep their shards; one that has lost the broker takes none.
  const auto me = std::ranges::find(nodes, c.node, &NodeRow::id);
  const bool lost = me != nodes.end() && me->link == BrokerLink::lost;
  if (lost && !any_can_publish(nodes)) return taken;
  for (std::size_t i = 0; i < rows.size() && c.held.size() + taken.size() < share; ++i) {
    const ShardRow& row = rows[(first + i) % rows.size()];
    if (row.owner == c.node) continue;
    const bool free = row.owner == 0;
    const bool expired = row.expires_at && *row.expires_at < c.db_now;
    if (free || expired) take(row, !free);
  }
  return taken;
}

// When the first unexpired lease or node of another instance expires: live instances renew long before.
std::optional<BootMs> next_foreign_expiry(const LeaseCycle& c, const std::vector<ShardRow>& rows,
                                          const std::vector<NodeRow>& nodes) {
  std::optional<BootMs> next;
  const auto see = [&](EpochMs at) {
    const BootMs here = c.received + (at - c.db_now);
    if (at >= c.db_now && (!next || here < *next)) next = here;
  };
  for (const ShardRow& row : rows) {
    if (row.owner != 0 && row.owner != c.node && row.expires_at) see(*row.expires_at);
  }
  for (const NodeRow& row : nodes) {
    if (row.id != c.node) see(row.expires_at);
  }
  return next;
}

// `nodes`: live. REQUIRES: c.held has the renewed leases.
void look_and_take(LeaseCycle& c, const LeaseSettings& settings, const Clock& here, Store& store,
                   const std::vector<NodeRow>& nodes) {
  const std::vector<ShardRow> rows = store.shards();
  // Higher than any epoch given out before the database went back: old writes stay fenced off.
  const std::uint64_t above = c.restored ? c.memory.highest_epoch : 0;
  std::uint64_t& highest = c.memory.highest_epoch;
  for (const ShardRow& row : rows) highest = std::max(highest, row.epoch);
  const std::vector<int> live = sharers(nodes);
  const auto share = static_cast<std::size_t>(fair_share(c.node, live));
  c.stepped_back = std::ranges::find(live, c.node) == live.end();
  c.next_expiry = next_foreign_expiry(c, rows, nodes);
  const auto plan = shards_to_take(c, rows, nodes, share, settings.connection_death, here.boot());
  const std::size_t planned = c.held.size() + plan.size();
  c.surplus = any_can_publish(nodes) && planned > share ? static_cast<int>(planned - share) : 0;
  std::vector<int> wanted;
  for (const Gained& one : plan) wanted.push_back(one.lease.shard);
  std::vector<Lease> taken;
  if (!wanted.empty())
    taken = store.acquire(c.node, settings.identity.incarnation, wanted, settings.lease, above);
  for (Gained one : plan) {
    const auto lease = std::ranges::find(taken, one.lease.shard, &Lease::shard);
    if (lease == taken.end()) continue;
    one.lease = *lease;
    highest = std::max(highest, lease->epoch);
    c.gained.push_back(std::move(one));
  }
  c.unsettled = c.held.size() + c.gained.size() != share;
}

}  // namespace

int fair_share(int node, const std::vector<int>& live) {
  const auto me = std::ranges::find(live, node);
  if (me == live.end()) return 0;
  const int n = static_cast<int>(live.size());
  const int place = static_cast<int>(me - live.begin());
  return kShards / n + (place < kShards % n ? 1 : 0);
}

std::vector<int> sharers(const std::vector<NodeRow>& live) {
  const bool any = any_can_publish(live);
  std::vector<int> ids;
  for (const NodeRow& row : live) {
    if (row.link != BrokerLink::lost || !any) ids.push_back(row.id);
  }
  std::ranges::sort(ids);
  return ids;
}

LeaseCycle perform_cycle(LeaseCycle c, const LeaseSettings& settings, const Clock& here, Store& store) {
  Beat beat = send_beat(c, settings, here, store);
  look_back(c, settings, here, store, beat);
  if (c.memory.row_gone) return c;
  c.received = here.boot();
  c.db_now = beat.now;
  c.clock = read_clock(here, store);
  c.name_taken = !beat.still_ours;
  if (c.name_taken) return c;
  c.memory.beats = beat.beats;
  c.held = store.renew(c.node, c.renew, settings.lease);
  if (!c.release.empty()) store.release(c.node, c.release);
  look_and_take(c, settings, here, store, beat.live);
  return c;
}

// --- the shards of this instance

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
