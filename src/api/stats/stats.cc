#include "src/api/stats/stats.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/api/queues/gates.h"
#include "src/core/base/time.h"

namespace rung::api {
namespace {

Result<LateTasks> read_late(MysqlStore& store, EpochMs due_before) {
  std::vector<int> all(kShards);
  std::iota(all.begin(), all.end(), 0);
  const auto gates = gates_in_force(store);
  if (!gates) return tl::unexpected(gates.error());
  std::vector<std::string> held_back;
  for (const QueueGate& gate : *gates) held_back.push_back(gate.queue);
  LateTasks late;
  // Publishes without a confirm, and silences that nobody ended, are overdue too.
  for (const State state : {State::scheduled, State::publishing, State::awaiting}) {
    auto due = store.due(state, all, std::nullopt, due_before, kMostLate, held_back);
    if (!due) return tl::unexpected(due.error());
    for (const DueEntry& entry : *due) {
      if (late.tasks++ > 0 && entry.at >= late.due_at) continue;
      late.oldest = entry.id;
      late.due_at = entry.at;
    }
  }
  return late;
}

}  // namespace

Result<Stats> read_stats(MysqlStore& store, TaskCounter& counter, const StatsQuestion& question) {
  const EpochMs now = question.now;
  Stats stats;
  auto tasks = counter.count(store, now, question.count_for);
  if (!tasks) return tl::unexpected(tasks.error());
  stats.tasks = *std::move(tasks);
  auto promises = store.promises();
  if (!promises) return tl::unexpected(promises.error());
  stats.promises = *std::move(promises);
  auto nodes = read_nodes(store, now, false);
  if (!nodes) return tl::unexpected(nodes.error());
  stats.nodes = *std::move(nodes);
  std::erase_if(stats.nodes.rows,
                [&](const NodeRow& node) { return state_of(node, now) != NodeState::live; });
  auto late = read_late(store, now - question.max_overdue);
  if (!late) return tl::unexpected(late.error());
  stats.late = *late;
  return stats;
}

std::optional<double> share_of(const PromiseCounts& counts) {
  const std::int64_t all = counts.in_time + counts.late;
  if (all == 0) return std::nullopt;
  return static_cast<double>(counts.in_time) / static_cast<double>(all);
}

TaskSums sums_of(const std::vector<QueueStat>& queues) {
  TaskSums sums;
  for (const QueueStat& q : queues) {
    sums.tasks[q.state] += q.tasks;
    sums.overdue += q.overdue;
  }
  return sums;
}

Json to_json(const TaskSums& sums) {
  Json json = Json::object();
  for (const auto& [state, tasks] : sums.tasks) json[std::string(to_word(state))] = tasks;
  return json;
}

namespace {

Json promise_json(const PromiseCounts& counts) {
  const auto share = share_of(counts);
  return {{"share", share ? Json(*share) : Json()},
          {"in_time", counts.in_time},
          {"late", counts.late},
          {"gated", counts.gated}};
}

}  // namespace

Json to_json(const Stats& stats, EpochMs now) {
  const TaskSums sums = sums_of(stats.tasks.queues);
  Json json = {{"by_queue", Json::array()}};
  for (const QueueStat& q : stats.tasks.queues) {
    json["by_queue"].push_back({{"queue", text_or_null(q.queue)},
                                {"state", to_word(q.state)},
                                {"tasks", q.tasks},
                                {"oldest_due_at", time_or_null(q.oldest_due_at)},
                                {"overdue", q.overdue}});
  }
  json["late_by"] = Json::array();
  for (const PromiseRow& row : stats.promises) {
    json["late_by"].push_back({{"queue", row.queue},
                               {"last_hour", promise_json(row.last_hour)},
                               {"last_day", promise_json(row.last_day)}});
  }
  const bool late = stats.late.tasks > 0;
  json["totals"] = to_json(sums);
  json["ended_counted_at"] = time_or_null(stats.tasks.ended_at);
  json["overdue"] = sums.overdue;
  json["overdue_beyond_bound"] = stats.late.tasks;
  json["oldest_overdue_ms"] = late ? Json((now - stats.late.due_at).count()) : Json();
  json["oldest_overdue_id"] = late ? Json(stats.late.oldest.str()) : Json();
  json["nodes"] = Json::array();
  for (const NodeRow& node : stats.nodes.rows) json["nodes"].push_back(node_json(stats.nodes, node, now));
  json["unowned"] = unowned_json(stats.nodes, now);
  return json;
}

}  // namespace rung::api
