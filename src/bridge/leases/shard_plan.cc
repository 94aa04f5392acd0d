#include "src/bridge/leases/shard_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/task/task.h"

namespace rung::bridge {
namespace {

bool somebody_can_publish(const std::vector<NodeRow>& live) {
  return std::ranges::any_of(live, [](const NodeRow& n) { return n.link == BrokerLink::up; });
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
  const bool somebody = somebody_can_publish(live);
  std::vector<int> ids;
  for (const NodeRow& row : live) {
    if (row.link != BrokerLink::lost || !somebody) ids.push_back(row.id);
  }
  std::ranges::sort(ids);
  return ids;
}

ShardPlan make_plan(const LeaseView& view, int node, const std::vector<Lease>& held, Ms connection_death,
                    BootMs boot) {
  ShardPlan plan;
  const std::vector<int> live = sharers(view.nodes);
  const auto is_held = [&](int s) {
    return std::ranges::any_of(held, [&](const Lease& l) { return l.shard == s; });
  };
  plan.stepped_back = std::ranges::find(live, node) == live.end();
  plan.share = fair_share(node, live);
  int mine = static_cast<int>(held.size());
  const Ms wait = planted(Bug::takeover_without_waiting) ? Ms{0} : connection_death;
  const auto take = [&](const ShardRow& row, bool expired = false) {
    const auto since = expired ? view.now : row.taken_over_at;
    const Ms left = since ? std::clamp(*since + wait - view.now, Ms{0}, wait) : Ms{0};
    plan.take.push_back(row.shard);
    plan.facts.push_back({{row.shard, 0}, boot + left, expired ? row.owner_name : ""});
    ++mine;
  };
  for (const ShardRow& row : view.rows) {
    if (row.owner == node && !is_held(row.shard) && !plan.stepped_back) take(row);
  }
  // Each instance starts at a different place, so that simultaneous plans do not ask for the same shards.
  const auto place = static_cast<std::size_t>(std::ranges::find(live, node) - live.begin());
  const std::size_t first = place * view.rows.size() / std::max<std::size_t>(live.size(), 1);
  // While no instance can publish, all keep their shards; one that has lost the broker takes none.
  const bool somebody = somebody_can_publish(view.nodes);
  const bool lost = std::ranges::any_of(
      view.nodes, [&](const NodeRow& n) { return n.id == node && n.link == BrokerLink::lost; });
  for (std::size_t i = 0; i < view.rows.size() && mine < plan.share && (somebody || !lost); ++i) {
    const ShardRow& row = view.rows[(first + i) % view.rows.size()];
    if (row.owner == node) continue;
    const bool free = row.owner == 0;
    const bool expired = row.expires_at && *row.expires_at < view.now;
    if (free || expired) take(row, !free);
  }
  plan.surplus = somebody ? std::max(mine - plan.share, 0) : 0;
  return plan;
}

std::optional<EpochMs> next_foreign_expiry(const LeaseView& view, int node) {
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

}  // namespace rung::bridge
