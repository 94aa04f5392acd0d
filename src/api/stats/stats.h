// What others need of /v1/stats and /v1/activity. Thread: as the store's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/base/time.h"
#include "src/core/rules/policy.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/system.h"

namespace rung::api {

// Overdue tasks of each shard and state that are counted: enough to report a problem.
inline constexpr int kMostLate = 100;

// By an instance whose lease is valid.
bool is_owned(const ShardRow& shard, EpochMs now);

inline constexpr std::int64_t kMostActivityPoints = 1500;
inline constexpr Ms kUsualActivity = std::chrono::hours{1};  // the last hour

// Whole steps, few enough, that cover what is asked for (a queue, "" = all together; from, until) and kept at
// `now`; none: it is all older, or to come.
std::optional<ActivityRange> activity_range(ActivityRange asked, EpochMs now);
// A point for each step, also for those in which nothing happened.
Json read_activity(MysqlStore& store, const ActivityRange& asked, EpochMs now);
// "(other)" if these rules give the queue no counts of its own. None: it may have some.
std::optional<std::string> aggregated_as(const RuleBook& rules, const std::string& queue);

}  // namespace rung::api
