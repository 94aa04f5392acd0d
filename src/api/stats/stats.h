// The counts and the lateness that `rung stats` and GET /v1/stats show. Thread: as the store's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/api/json/json.h"
#include "src/api/stats/nodes.h"
#include "src/api/stats/task_counter.h"
#include "src/core/base/result.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// Tasks that are overdue by more than a bound. Not those of queues that something holds back: they are late
// by intent.
struct LateTasks {
  std::size_t tasks = 0;  // counting stops at kMostLate of each shard and state
  TaskId oldest;          // of tasks > 0 ...
  EpochMs due_at;         // ... and since when
};
inline constexpr int kMostLate = 100;  // enough to report a problem

struct Stats {
  TaskCount tasks;
  std::vector<PromiseRow> promises;  // of lateness: `late_by`
  Nodes nodes;                       // the live ones
  LateTasks late;
};
struct StatsQuestion {
  EpochMs now;
  Ms max_overdue;
  Ms count_for;  // ended tasks: TaskCounter::count()
};
Result<Stats> read_stats(MysqlStore& store, TaskCounter& counter, const StatsQuestion& question);

// Of the deliveries that no gate held up; none: there were none.
std::optional<double> share_of(const PromiseCounts& counts);

struct TaskSums {
  std::map<State, std::int64_t> tasks;
  std::int64_t overdue = 0;
};
TaskSums sums_of(const std::vector<QueueStat>& queues);

Json to_json(const TaskSums& sums);
Json to_json(const Stats& stats, EpochMs now);

}  // namespace rung::api
