// The instances, the counts and how late tasks are: what others need of /v1/stats. Thread: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "src/core/base/time.h"
#include "src/store/system.h"

namespace rung::api {

// Overdue tasks of each shard and state that are counted: enough to report a problem.
inline constexpr int kMostLate = 100;

// The number of shards without a live owner. `live`: as live_nodes() says. `now`: the database's time.
std::size_t unowned_shards(std::span<const ShardRow> shards, std::span<const NodeRow> live, EpochMs now);

}  // namespace rung::api
