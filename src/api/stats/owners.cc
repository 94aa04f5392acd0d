#include "src/api/stats/owners.h"

#include <algorithm>

#include "src/core/task/task.h"

namespace rung::api {

Owners owners_of(std::span<const ShardRow> shards, std::span<const NodeRow> live, EpochMs now) {
  Owners owners;
  std::vector<bool> owned(kShards, false);
  for (const ShardRow& row : shards) {
    const bool alive = row.owner != 0 && row.expires_at && *row.expires_at >= now && row.shard >= 0 &&
                       row.shard < kShards && std::ranges::find(live, row.owner, &NodeRow::id) != live.end();
    if (!alive) continue;
    owned[static_cast<std::size_t>(row.shard)] = true;
    ++owners.shards_of[row.owner];
  }
  for (int shard = 0; shard < kShards; ++shard) {
    if (!owned[static_cast<std::size_t>(shard)]) owners.unowned.push_back(shard);
  }
  return owners;
}

}  // namespace rung::api
