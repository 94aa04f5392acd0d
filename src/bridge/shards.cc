#include "src/bridge/shards.h"

#include <algorithm>
#include <utility>

#include "src/core/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

namespace {

// After somebody else's lease has run out, and not all of us in the same millisecond.
constexpr Ms kAfterExpiry{20}, kMostSpread{300};
// While shards change hands: at first after so long, then ever less soon, up to a tenth of the lease.
constexpr Ms kHurry{50};
// A shard that is to be given back takes no new claims: for so long at most while a publish of it has no
// answer.
constexpr Ms kLeavingMost{3000};
// SIGTERM while our first cycle is under way: the longest that its answer is waited for.
constexpr Ms kPatience{1000};
// The database's clock against ours: more than this between two measurements is a step, and no drift ...
constexpr std::int64_t kStepUs = 1'000'000;
// ... of which a clock may have a five-hundredth (0.2 %) of the time that has gone by.
constexpr std::int64_t kDrift = 500;

}  // namespace

// One turn: what is asked (first part) and what the database said (second).
struct Shards::Cycle {
  int node = 0;
  std::vector<Lease> renew, release;
  std::vector<HealthProblem> problems;
  std::uint64_t beats = 0, highest_epoch = 0;  // as of the last cycle, and of this one
  bool row_gone = false;                       // the same
  BrokerLink link = BrokerLink::up;

  bool name_taken = false;
  std::optional<std::string> restored;  // the database went back in time: how that is known
  EpochMs db_now;
  BootMs sent, received;  // around the beat
  struct Reading {
    EpochUs db;
    BootUs sent, received;
    std::int64_t took() const { return received.us - sent.us; }
  };
  Reading clock;
  std::vector<Lease> held;
  std::vector<Gained> gained;
  int surplus = 0;
  bool unsettled = false;  // what we hold is not what we are due
  bool stepped_back = false;
  std::optional<BootMs> next_expiry;  // of a lease or a node that isn't ours: the living renew long before
};

int fair_share(int node, const std::vector<int>& live) {
  const auto me = std::ranges::find(live, node);
  if (me == live.end()) return 0;
  const int n = static_cast<int>(live.size());
  const int place = static_cast<int>(me - live.begin());
  return kShards / n + (place < kShards % n ? 1 : 0);
}

namespace {

bool somebody_can_publish(const std::vector<NodeRow>& live) {
  return std::ranges::any_of(live, [](const NodeRow& n) { return n.link == BrokerLink::up; });
}

}  // namespace

std::vector<int> sharers(const std::vector<NodeRow>& live) {
  const bool somebody = somebody_can_publish(live);
  std::vector<int> ids;
  for (const NodeRow& row : live) {
    if (row.link != BrokerLink::lost || !somebody) ids.push_back(row.id);
  }
  std::ranges::sort(ids);
  return ids;
}

namespace {

struct View {  // of the database, in a cycle
  std::vector<ShardRow> rows;
  std::vector<NodeRow> nodes;  // live
  EpochMs now;
};

struct Plan {
  std::vector<int> take;
  std::vector<Gained> facts;  // lease.shard and recover_at of each in `take`; the epoch is not known yet
  int share = 0;
  int surplus = 0;
  bool stepped_back = false;
};

// Which shards to take: our own under an older epoch always, then free and expired ones up to our share.
Plan make_plan(const View& view, int node, const std::vector<Lease>& held, Ms connection_death, BootMs boot) {
  Plan plan;
  const std::vector<int> live = sharers(view.nodes);
  const auto is_held = [&](int s) {
    return std::ranges::any_of(held, [&](const Lease& l) { return l.shard == s; });
  };
  plan.stepped_back = std::ranges::find(live, node) == live.end();
  plan.share = fair_share(node, live);
  int mine = static_cast<int>(held.size());
  const auto take = [&](int shard, BootMs recover_at) {
    plan.take.push_back(shard);
    plan.facts.push_back({{shard, 0}, recover_at});
    ++mine;
  };
  for (const ShardRow& row : view.rows) {
    if (row.owner == node && !is_held(row.shard) && !plan.stepped_back) take(row.shard, boot);
  }
  // Each begins at a place of its own, so that those who look at the same time do not ask for the same.
  const auto place = static_cast<std::size_t>(std::ranges::find(live, node) - live.begin());
  const std::size_t first = place * view.rows.size() / std::max<std::size_t>(live.size(), 1);
  // While nobody can publish, everybody keeps what it has; who has lost the broker takes nothing.
  const bool somebody = somebody_can_publish(view.nodes);
  const bool lost = std::ranges::any_of(
      view.nodes, [&](const NodeRow& n) { return n.id == node && n.link == BrokerLink::lost; });
  for (std::size_t i = 0; i < view.rows.size() && mine < plan.share && (somebody || !lost); ++i) {
    const ShardRow& row = view.rows[(first + i) % view.rows.size()];
    if (row.owner == node) continue;
    const bool free = row.owner == 0;
    const bool expired = row.expires_at && *row.expires_at < view.now;
    if (free) take(row.shard, boot);
    const Ms wait = planted(Bug::takeover_without_waiting) ? Ms{0} : connection_death;
    if (!free && expired) take(row.shard, boot + wait);
  }
  plan.surplus = somebody ? std::max(mine - plan.share, 0) : 0;
  return plan;
}

// When the first lease or node runs out that isn't ours, of those that have not yet.
std::optional<EpochMs> next_foreign_expiry(const View& view, int node) {
  std::optional<EpochMs> next;
  const auto see = [&](EpochMs at) {
    if (at >= view.now && (!next || at < *next)) next = at;
  };
  for (const ShardRow& row : view.rows) {
    if (row.owner != 0 && row.owner != node && row.expires_at) see(*row.expires_at);
  }
  for (const NodeRow& row : view.nodes) {
    if (row.id != node) see(row.expires_at);
  }
  return next;
}

}  // namespace

Shards::Shards(io::Loop& loop, StoreJobs& jobs, DbClock& clock, Settings settings, Listener listener)
    : jobs_(jobs),
      clock_(clock),
      settings_(std::move(settings)),
      listener_(std::move(listener)),
      timer_(loop, [this] { begin_cycle(); }),
      patience_(loop, [this] { give_back(); }),
      dice_(static_cast<std::minstd_rand::result_type>(settings_.identity.incarnation)) {}

void Shards::start() {
  if (!std::exchange(started_, true) && !leaving_) timer_.start(Ms{0});
}

void Shards::set_link(BrokerLink link) {
  if (std::exchange(link_, link) == link || !started_ || leaving_) return;
  if (!cycling_) timer_.start(Ms{0});  // the others should know at once
}

std::vector<int> Shards::list() const {
  std::vector<int> shards;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) shards.push_back(s);
  }
  return shards;
}

std::vector<Lease> Shards::leases() const {
  std::vector<Lease> leases;
  for (int s = 0; s < kShards; ++s) {
    if (slot(s).epoch != 0) leases.push_back({s, slot(s).epoch});
  }
  return leases;
}

int Shards::home() {
  for (int i = 0; i < kShards; ++i) {
    const int shard = next_home_;
    next_home_ = (next_home_ + 1) % kShards;
    if (held(shard)) return shard;
  }
  return -1;
}

TaskId Shards::new_id(EpochMs now) {
  if (!ids_) ids_ = std::make_unique<IdSource>(node_);
  return ids_->next(now);
}

void Shards::begin_cycle() {
  cycling_ = true;
  begun_ = clock_.here().boot();
  Cycle cycle;
  cycle.node = node_;
  cycle.problems = problems_;
  cycle.beats = beats_;
  cycle.highest_epoch = highest_epoch_;
  cycle.row_gone = row_gone_;
  cycle.link = link_;
  for (const Lease& lease : leases()) {
    const bool give_back = slot(lease.shard).leaving && !in_use(lease.shard);
    (give_back ? cycle.release : cycle.renew).push_back(lease);
  }
  const auto work = [cycle, settings = settings_, &here = clock_.here()](LeaseStore& store) {
    return perform(cycle, settings, here, store);
  };
  jobs_.submit<Cycle>(Lane::control, work, [this](const Result<Cycle>& result) {
    cycling_ = false;
    if (leaving_) {  // what it took is given back with the rest
      if (result) node_ = result->node;
      if (left_) give_back();
      return;
    }
    if (result) {
      end_cycle(*result);
    } else if (!result.error().is_transient()) {
      log::error("the leases could not be renewed", {{"reason", result.error().message}});
    }
    arm(result ? &*result : nullptr);
  });
}

// The best of some: what it took is what the clock is uncertain by, and so how late all may go out.
Result<void> Shards::read_clock(Cycle& c, const Clock& here, LeaseStore& store) {
  constexpr int kReadings = 5;
  for (int i = 0; i < kReadings; ++i) {
    Cycle::Reading reading;
    reading.sent = here.boot_us();
    const auto now = store.clock();
    if (!now) return tl::unexpected(now.error());
    reading.db = *now;
    reading.received = here.boot_us();
    if (i == 0 || reading.took() < c.clock.took()) c.clock = reading;
  }
  return {};
}

// Each beat counts one in our node's row. A row that counts fewer than we know of is an older one: the
// database was put back. Another process that takes our name goes on counting from there, and never removes
// the row; so a row that is gone, or that is another's now, means the same. But it may be gone for a moment
// only, while a dump is being read in: what is registered then would be in the dump's way.
Result<void> Shards::look_back(Cycle& c, const Settings& settings, const Clock& here, LeaseStore& store,
                               LeaseStore::Beat& beat) {
  const bool gone = beat.name != settings.identity.name;
  const bool known = c.beats > 0;  // this process has beaten before
  if (!known || (!gone && beat.beats > c.beats)) {
    c.row_gone = false;
    return {};
  }
  if (gone && !std::exchange(c.row_gone, true)) return {};  // again in the next cycle
  c.restored = gone ? "the row of this node is gone from rung_nodes"
                    : "this node's heartbeat counts " + std::to_string(beat.beats) + ", and was at " +
                          std::to_string(c.beats) + " before";
  c.row_gone = false;
  c.renew.clear();  // what we held is not what the database says now
  c.release.clear();
  const auto node = store.register_node(settings.identity, settings.lease);
  if (!node) return tl::unexpected(node.error());
  c.node = *node;
  c.sent = here.boot();
  auto again = store.heartbeat(c.node, settings.identity.incarnation, settings.lease, c.problems, c.link);
  if (!again) return tl::unexpected(again.error());
  beat = *std::move(again);
  return {};
}

// On the control lane; again from the beginning after a transient error.
Result<Shards::Cycle> Shards::perform(Cycle c, const Settings& settings, const Clock& here,
                                      LeaseStore& store) {
  const NodeIdentity& identity = settings.identity;
  if (c.node == 0) {
    const auto node = store.register_node(identity, settings.lease);
    if (!node) return tl::unexpected(node.error());
    c.node = *node;
  }
  c.sent = here.boot();
  auto beat = store.heartbeat(c.node, identity.incarnation, settings.lease, c.problems, c.link);
  if (!beat) return tl::unexpected(beat.error());
  if (auto looked = look_back(c, settings, here, store, *beat); !looked)
    return tl::unexpected(looked.error());
  if (c.row_gone) return c;
  c.received = here.boot();
  c.db_now = beat->now;
  if (auto read = read_clock(c, here, store); !read) return tl::unexpected(read.error());
  c.name_taken = !beat->still_ours;
  if (c.name_taken) return c;
  c.beats = beat->beats;
  const auto renewed = store.renew(c.node, c.renew, settings.lease);
  if (!renewed) return tl::unexpected(renewed.error());
  c.held = renewed->held;
  if (!c.release.empty()) {
    if (const auto released = store.release(c.node, c.release); !released)
      return tl::unexpected(released.error());
  }
  const auto rows = store.shards();
  if (!rows) return tl::unexpected(rows.error());
  const auto nodes = store.live_nodes();
  if (!nodes) return tl::unexpected(nodes.error());
  // Higher than all that anybody was given before the database went back: old writes stay fenced off.
  const std::uint64_t above = c.restored ? c.highest_epoch : 0;
  for (const ShardRow& row : *rows) c.highest_epoch = std::max(c.highest_epoch, row.epoch);
  const View view{*rows, *nodes, c.db_now};
  const Plan plan = make_plan(view, c.node, c.held, settings.connection_death, here.boot());
  c.surplus = plan.surplus;
  if (const auto at = next_foreign_expiry(view, c.node)) c.next_expiry = c.received + (*at - c.db_now);
  if (!plan.take.empty()) {
    const auto taken = store.acquire(c.node, identity.incarnation, plan.take, settings.lease, above);
    if (!taken) return tl::unexpected(taken.error());
    for (const Lease& lease : *taken) {
      c.highest_epoch = std::max(c.highest_epoch, lease.epoch);
      const auto fact =
          std::ranges::find_if(plan.facts, [&](const Gained& g) { return g.lease.shard == lease.shard; });
      c.gained.push_back({lease, fact != plan.facts.end() ? fact->recover_at : here.boot()});
    }
  }
  c.unsettled = static_cast<int>(c.held.size() + c.gained.size()) != plan.share;
  c.stepped_back = plan.stepped_back;
  return c;
}

void Shards::end_cycle(const Cycle& cycle) {
  row_gone_ = cycle.row_gone;
  if (row_gone_) return;  // the fence closes by itself where this goes on
  if (node_ != cycle.node) ids_.reset();
  node_ = cycle.node;
  beats_ = cycle.beats;
  highest_epoch_ = cycle.highest_epoch;
  if (cycle.name_taken) {
    listener_.publish_until({0});
    listener_.name_taken();
    return;
  }
  notice(cycle);
  clock_.measured(cycle.clock.db, cycle.clock.sent, cycle.clock.received);
  std::vector<int> lost;
  if (cycle.restored) {
    lost = list();
    slots_ = {};
  }
  const auto still = [&](const Lease& lease) {
    return std::ranges::find(cycle.held, lease) != cycle.held.end();
  };
  for (const Lease& lease : cycle.release) slot(lease.shard) = {};
  for (const Lease& lease : cycle.renew) {
    if (still(lease) || slot(lease.shard).epoch != lease.epoch) continue;
    slot(lease.shard) = {};
    lost.push_back(lease.shard);
  }
  const std::size_t kept = leases().size();
  for (const Gained& g : cycle.gained) slot(g.lease.shard) = {g.lease.epoch};
  count_ = static_cast<int>(leases().size());
  if (cycle.stepped_back != stepped_back_) step_back(cycle.stepped_back);
  plan_surplus(cycle.surplus);
  if (!cycle.release.empty())
    log::info("shards given back", {{"given", cycle.release.size()}, {"held", count_}, {"of", kShards}});
  if (!lost.empty()) {
    log::warn("leases lost", {{"shards", lost.size()}, {"held", kept}});
    listener_.lost(lost);
  }
  // A margin for the way from the check to the socket, and for clocks that run a little apart.
  const Ms margin = settings_.lease / 10;
  // Who steps back closes the fence: what waits for the broker comes back unsent, and its shard can go.
  const bool open = count_ > 0 && !stepped_back_;
  listener_.publish_until(open ? cycle.sent + settings_.lease - margin : BootMs{0});
  if (!cycle.gained.empty()) {
    log::info("shards taken", {{"taken", cycle.gained.size()}, {"held", count_}, {"of", kShards}});
    listener_.gained(cycle.gained);
  }
}

void Shards::notice(const Cycle& cycle) {
  if (cycle.restored) listener_.noticed({Notice::Kind::restored, *cycle.restored});
  const Cycle::Reading& read = cycle.clock;
  const Offset now{read.db.us - read.received.us, read.db.us - read.sent.us, read.received};
  if (const auto before = std::exchange(offset_, now)) {
    const std::int64_t allowed = kStepUs + (now.at.us - before->at.us) / kDrift;
    const std::int64_t ahead = now.least - before->most, back = now.most - before->least;
    if (ahead > allowed || -back > allowed) {
      const std::int64_t ms = (ahead > 0 ? ahead : back) / 1000;
      listener_.noticed({Notice::Kind::clock_stepped,
                         (ms > 0 ? "forward by " : "back by ") + std::to_string(ms > 0 ? ms : -ms) + " ms"});
    }
  }
}

void Shards::step_back(bool yes) {
  stepped_back_ = yes;
  if (yes) {
    log::warn("cannot publish while another instance can: the shards are given up", {{"held", count_}});
  } else {
    log::info("takes shards again", {{"held", count_}});
  }
}

void Shards::plan_surplus(int surplus) {
  const BootMs now = clock_.here().boot();
  // Those given back are the highest numbers: an instance that stays small keeps the same shards.
  int leaving = 0;
  for (int s = kShards - 1; s >= 0; --s) {
    Slot& it = slot(s);
    if (it.epoch == 0) continue;
    const bool used = in_use(s);
    // A publish without an answer may keep it for ever: then it goes on working, and another one leaves.
    if (!stepped_back_ && it.leaving && used && now - it.leaving_since > kLeavingMost) it.stuck = true;
    it.stuck = it.stuck && used;
    const bool leaves = leaving < surplus && !it.stuck;
    if (leaves && !it.leaving) it.leaving_since = now;
    it.leaving = leaves;
    if (leaves) ++leaving;
  }
}

Ms Shards::some(Ms most) { return Ms{std::uniform_int_distribution<std::int64_t>(0, most.count())(dice_)}; }

void Shards::arm(const Cycle* cycle) {
  if (cycle != nullptr && cycle->name_taken) return;
  const Ms third = settings_.lease / 3, tenth = settings_.lease / 10;
  BootMs at = begun_ + third - some(third / 10);
  if (cycle != nullptr && cycle->next_expiry && !cycle->row_gone)
    at = std::min(at, *cycle->next_expiry + kAfterExpiry + some(std::min(kMostSpread, tenth)));
  if (cycle != nullptr && cycle->unsettled) {
    hurry_ = std::clamp(hurry_ * 2, kHurry, std::max(tenth, kHurry));
    at = std::min(at, clock_.here().boot() + hurry_);
  } else {
    hurry_ = Ms{0};
  }
  if (cycle != nullptr && cycle->link != link_)
    at = clock_.here().boot();  // it changed meanwhile: the others should know
  timer_.start(std::max(at - clock_.here().boot(), Ms{1}));
}

void Shards::leave(std::function<void()> done) {
  leaving_ = true;
  left_ = std::move(done);
  timer_.stop();
  listener_.publish_until({0});  // from here on the shards may be others'
  slots_ = {};
  count_ = 0;
  // Our first cycle is under way: only its answer says who we are. But nobody waits long for a database that
  // is not there.
  if (node_ == 0 && cycling_) return patience_.start(kPatience);
  give_back();
}

void Shards::give_back() {
  patience_.stop();
  const std::function<void()> done = std::exchange(left_, nullptr);
  if (node_ == 0) return done();
  const auto work = [node = node_,
                     incarnation = settings_.identity.incarnation](LeaseStore& store) -> Result<bool> {
    if (const auto left = store.leave(node, incarnation); !left) return tl::unexpected(left.error());
    return true;
  };
  jobs_.submit<bool>(Lane::control, work, [done](const Result<bool>&) { done(); });
}

}  // namespace rung::bridge
