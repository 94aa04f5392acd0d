#include "src/api/stats/nodes.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung::api {

namespace {

constexpr Ms kHiddenAfter = std::chrono::hours{24};  // older nodes are shown only on request

}  // namespace

NodeState state_of(const NodeRow& node, EpochMs now) {
  if (node.expires_at > now) return NodeState::live;
  return node.expires_at > node.seen_at ? NodeState::dead
                                        : NodeState::left;  // a clean shutdown sets expires_at to now
}

std::string_view to_word(NodeState state) {
  switch (state) {
    case NodeState::live:
      return "live";
    case NodeState::dead:
      return "dead";
    default:
      return "left";
  }
}

// REQUIRES: rows are read.
static void compare_configs(Nodes& nodes, EpochMs now) {
  std::map<std::string, int> count;
  for (const NodeRow& node : nodes.rows) {
    if (state_of(node, now) == NodeState::live && !node.config.empty()) ++count[node.config];
  }
  nodes.differ = count.size() > 1;
  int most = 0;
  for (const auto& [config, times] : count) {
    if (times == most) nodes.config.clear();
    if (times > most) nodes.config = config;
    most = std::max(most, times);
  }
}

bool differs(const Nodes& nodes, const NodeRow& node, EpochMs now) {
  return nodes.differ && state_of(node, now) == NodeState::live && !node.config.empty() &&
         node.config != nodes.config;
}

EpochMs since(const NodeRow& node, EpochMs now) {
  return state_of(node, now) == NodeState::live ? node.started_at : node.expires_at;
}

namespace {

void add(OwnedShards& owned, const ShardRow& shard, const std::map<int, ShardOverdue>& late) {
  owned.shards.push_back(shard.shard);
  if (shard.acquired_at)
    owned.changed_at = std::max(owned.changed_at.value_or(EpochMs{}), *shard.acquired_at);
  const auto it = late.find(shard.shard);
  if (it == late.end()) return;
  owned.overdue += it->second.tasks;
  owned.oldest = std::min(owned.oldest.value_or(it->second.oldest), it->second.oldest);
}

}  // namespace

Result<Nodes> read_nodes(MysqlStore& store, EpochMs now, bool all) {
  auto rows = store.nodes();
  if (!rows) return tl::unexpected(rows.error());
  const auto shards = store.shards();
  if (!shards) return tl::unexpected(shards.error());
  const auto overdue = store.overdue();
  if (!overdue) return tl::unexpected(overdue.error());
  std::map<int, ShardOverdue> late;
  for (const ShardOverdue& one : *overdue) late[one.shard] = one;
  Nodes nodes;
  for (const ShardRow& shard : *shards) {
    const bool held = shard.owner != 0 && shard.expires_at && *shard.expires_at > now;
    add(held ? nodes.held[shard.owner] : nodes.unowned, shard, late);
  }
  for (NodeRow& row : *rows) {
    const bool ended_long_ago = row.expires_at + kHiddenAfter < now && !nodes.held.contains(row.id);
    if (ended_long_ago && !all) {
      ++nodes.hidden;
    } else {
      nodes.rows.push_back(std::move(row));
    }
  }
  compare_configs(nodes, now);
  return nodes;
}

namespace {

void put(Json& json, const OwnedShards& owned, EpochMs now) {
  json["shards"] = owned.shards;
  json["overdue"] = owned.overdue;
  json["oldest_overdue_ms"] = owned.oldest ? Json((now - *owned.oldest).count()) : Json();
}

Json problems_of(const NodeRow& node) {
  Json json = Json::array();
  for (const HealthProblem& p : node.problems)
    json.push_back({{"name", p.name}, {"detail", p.detail}, {"since", to_rfc3339(p.since)}});
  return json;
}

}  // namespace

Json node_json(const Nodes& nodes, const NodeRow& node, EpochMs now) {
  static const OwnedShards kNothing;
  const auto it = nodes.held.find(node.id);
  const OwnedShards& owned = it == nodes.held.end() ? kNothing : it->second;
  Json json = {{"node", node.name},
               {"state", to_word(state_of(node, now))},
               {"since", to_rfc3339(since(node, now))},
               {"started_at", to_rfc3339(node.started_at)},
               {"seen_at", to_rfc3339(node.seen_at)},
               {"expires_at", to_rfc3339(node.expires_at)},
               {"version", node.version},
               {"address", node.address},
               {"config", text_or_null(node.config)},
               {"config_differs", differs(nodes, node, now)},
               {"problems", problems_of(node)},
               {"taken_at", time_or_null(owned.changed_at)}};
  put(json, owned, now);
  return json;
}

Json unowned_json(const Nodes& nodes, EpochMs now) {
  Json json;
  put(json, nodes.unowned, now);
  return json;
}

std::size_t unowned_shards(std::span<const ShardRow> shards, std::span<const NodeRow> live, EpochMs now) {
  std::set<int> owned;
  for (const ShardRow& row : shards) {
    const bool alive = row.owner != 0 && row.expires_at && *row.expires_at >= now && row.shard >= 0 &&
                       row.shard < kShards && std::ranges::find(live, row.owner, &NodeRow::id) != live.end();
    if (alive) owned.insert(row.shard);
  }
  return kShards - owned.size();
}

}  // namespace rung::api
