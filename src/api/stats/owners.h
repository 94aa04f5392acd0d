// Who owns the shards, as the rows of leases and nodes say. Thread: pure functions.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/leases.h"

namespace rung::api {

struct Owners {
  std::map<int, int> shards_of;  // by node
  std::vector<int> unowned;      // shards without a live owner
};

// `live`: as live_nodes() says. `now`: the database's time.
Owners owners_of(std::span<const ShardRow> shards, std::span<const NodeRow> live, EpochMs now);

}  // namespace rung::api
