// What a cycle does with the database, and who gets which shards.
#include <algorithm>

#include "src/bridge/leases/shards.h"
#include "src/core/base/failpoint.h"

namespace rung::bridge {
namespace {

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

}  // namespace rung::bridge
