// The instances of Rung as `rung nodes` and GET /v1/nodes show them. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/system.h"

namespace rung::api {

// The shards that a node owns by valid leases, or that no node owns.
struct OwnedShards {
  std::vector<int> shards;
  std::optional<EpochMs> changed_at;  // when the latest of them was acquired
  std::int64_t overdue = 0;
  std::optional<EpochMs> oldest;  // due time of the oldest overdue task
};

enum class NodeState { live, dead, left };

struct Nodes {
  std::vector<NodeRow> rows;
  std::string config;   // fingerprint that most live nodes have; "" = none is the most frequent
  bool differ = false;  // live nodes have different ones
  std::map<int, OwnedShards> held;
  OwnedShards unowned;
  std::size_t hidden = 0;  // number of nodes not shown
};

NodeState state_of(const NodeRow& node, EpochMs now);
std::string_view to_word(NodeState state);
// It is live, and has another config than most.
bool differs(const Nodes& nodes, const NodeRow& node, EpochMs now);
// Live since then, or not any more.
EpochMs since(const NodeRow& node, EpochMs now);

// `all`: also nodes that ended over a day ago.
Result<Nodes> read_nodes(MysqlStore& store, EpochMs now, bool all);
Json node_json(const Nodes& nodes, const NodeRow& node, EpochMs now);
Json unowned_json(const Nodes& nodes, EpochMs now);
// The number of shards without a live owner. `live`: as live_nodes() says. `now`: the database's time.
std::size_t unowned_shards(std::span<const ShardRow> shards, std::span<const NodeRow> live, EpochMs now);

}  // namespace rung::api
