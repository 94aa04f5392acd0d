#include "src/bridge/shards.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {

// One turn: what is asked (first part) and what the database said (second).
struct Shards::Cycle {
  int node = 0;
  std::vector<Lease> renew, release;

  bool name_taken = false;
  EpochMs db_now;
  BootMs sent, received;  // around the beat and the renewal
  std::vector<Lease> held;
  std::vector<Gained> gained;
  int surplus = 0;
};

int fair_share(int node, const std::vector<int>& live) {
  const auto me = std::ranges::find(live, node);
  const int n = std::max<int>(static_cast<int>(live.size()), 1);
  const int place = me == live.end() ? 0 : static_cast<int>(me - live.begin());
  return kShards / n + (place < kShards % n ? 1 : 0);
}

namespace {

struct Plan {
  std::vector<int> take;
  std::vector<Gained> facts;  // lease.shard and recover_at of each in `take`; the epoch is not known yet
  int surplus = 0;
};

// Which shards to take: our own under an older epoch always, then free and expired ones up to our share.
Plan make_plan(const std::vector<ShardRow>& rows, const std::vector<int>& live, int node, int held_now,
               EpochMs now, BootMs boot, Ms connection_death, const std::vector<Lease>& held) {
  Plan plan;
  const auto is_held = [&](int s) {
    return std::ranges::any_of(held, [&](const Lease& l) { return l.shard == s; });
  };
  const int share = fair_share(node, live);
  int mine = held_now;
  const auto take = [&](int shard, BootMs recover_at) {
    plan.take.push_back(shard);
    plan.facts.push_back({{shard, 0}, recover_at});
    ++mine;
  };
  for (const ShardRow& row : rows) {
    if (row.owner == node && !is_held(row.shard)) take(row.shard, boot);
  }
  for (const ShardRow& row : rows) {
    if (mine >= share) break;
    if (row.owner == node) continue;
    const bool free = row.owner == 0;
    const bool expired = row.expires_at && *row.expires_at < now;
    if (free) take(row.shard, boot);
    if (!free && expired) take(row.shard, boot + connection_death);
  }
  plan.surplus = std::max(mine - share, 0);
  return plan;
}

}  // namespace

Shards::Shards(io::Loop& loop, StoreThreads& threads, DbClock& clock, Settings settings, Listener listener)
    : threads_(threads),
      clock_(clock),
      settings_(std::move(settings)),
      listener_(std::move(listener)),
      timer_(loop, [this] { begin_cycle(); }) {}

void Shards::start() { timer_.start(Ms{0}, settings_.lease / 3); }

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

void Shards::begin_cycle() {
  if (cycling_ || leaving_) return;  // the database is slow or away: the cycle under way will see it through
  cycling_ = true;
  Cycle cycle;
  cycle.node = node_;
  for (const Lease& lease : leases()) {
    const bool give_back = slot(lease.shard).leaving && !listener_.in_use(lease.shard);
    (give_back ? cycle.release : cycle.renew).push_back(lease);
  }
  const auto work = [cycle, settings = settings_](Store& store) -> Result<Cycle> {
    Cycle c = cycle;
    if (c.node == 0) {
      const auto node = store.register_node(settings.identity, settings.lease);
      if (!node) return tl::unexpected(node.error());
      c.node = *node;
    }
    c.sent = boot_now();
    const auto beat = store.heartbeat(c.node, settings.identity.incarnation, settings.lease);
    if (!beat) return tl::unexpected(beat.error());
    c.received = boot_now();
    c.db_now = beat->now;
    c.name_taken = !beat->still_ours;
    if (c.name_taken) return c;
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
    std::vector<int> live;
    for (const NodeRow& row : *nodes) live.push_back(row.id);
    std::ranges::sort(live);
    const Plan plan = make_plan(*rows, live, c.node, static_cast<int>(c.held.size()), c.db_now, boot_now(),
                                settings.connection_death, c.held);
    c.surplus = plan.surplus;
    if (plan.take.empty()) return c;
    const auto taken = store.acquire(c.node, plan.take, settings.lease);
    if (!taken) return tl::unexpected(taken.error());
    for (const Lease& lease : *taken) {
      const auto fact =
          std::ranges::find_if(plan.facts, [&](const Gained& g) { return g.lease.shard == lease.shard; });
      c.gained.push_back({lease, fact != plan.facts.end() ? fact->recover_at : boot_now()});
    }
    return c;
  };
  threads_.submit<Cycle>(Lane::control, work, [this](Result<Cycle> result) {
    cycling_ = false;
    if (result) {
      end_cycle(*result);
    } else if (!result.error().is_transient()) {
      log::error("the leases could not be renewed", {{"reason", result.error().message}});
    }
  });
}

void Shards::end_cycle(const Cycle& cycle) {
  node_ = cycle.node;
  if (cycle.name_taken) {
    listener_.publish_until({0});
    listener_.name_taken();
    return;
  }
  clock_.measured(cycle.db_now, cycle.sent, cycle.received);
  std::vector<int> lost;
  const auto still = [&](const Lease& lease) {
    return std::ranges::find(cycle.held, lease) != cycle.held.end();
  };
  for (const Lease& lease : cycle.release) slot(lease.shard) = {};
  for (const Lease& lease : cycle.renew) {
    if (still(lease) || slot(lease.shard).epoch != lease.epoch) continue;
    slot(lease.shard) = {};
    lost.push_back(lease.shard);
  }
  for (const Gained& g : cycle.gained) slot(g.lease.shard) = {g.lease.epoch, false};
  count_ = static_cast<int>(leases().size());
  plan_surplus(cycle.surplus);
  if (!lost.empty()) {
    log::warn("leases lost", {{"shards", lost.size()}, {"held", count_}});
    listener_.lost(lost);
  }
  // A margin for the way from the check to the socket, and for clocks that run a little apart.
  const Ms margin = settings_.lease / 10;
  listener_.publish_until(count_ > 0 ? cycle.sent + settings_.lease - margin : BootMs{0});
  if (!cycle.gained.empty()) {
    log::info("shards taken", {{"taken", cycle.gained.size()}, {"held", count_}, {"of", kShards}});
    listener_.gained(cycle.gained);
  }
}

void Shards::plan_surplus(int surplus) {
  // Those given back are the highest numbers: an instance that stays small keeps the same shards.
  int leaving = 0;
  for (int s = kShards - 1; s >= 0; --s) {
    if (slot(s).epoch == 0) continue;
    slot(s).leaving = leaving < surplus;
    if (slot(s).leaving) ++leaving;
  }
}

void Shards::leave(std::function<void()> done) {
  leaving_ = true;
  timer_.stop();
  if (node_ == 0) {
    done();
    return;
  }
  const auto work = [node = node_, leases = leases(),
                     incarnation = settings_.identity.incarnation](Store& store) -> Result<bool> {
    if (const auto released = store.release(node, leases); !released) return tl::unexpected(released.error());
    if (const auto left = store.leave(node, incarnation); !left) return tl::unexpected(left.error());
    return true;
  };
  slots_ = {};
  count_ = 0;
  threads_.submit<bool>(Lane::control, work, [done = std::move(done)](const Result<bool>&) { done(); });
}

}  // namespace rung::bridge
