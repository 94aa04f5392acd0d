// The service: /v1/nodes (the instances), /v1/stats (counts, and how late tasks are), /v1/overview (that and
// the queues), /v1/activity (by minute), /v1/now (the database's time), /v1/you, /healthz, /readyz.
#include "src/api/stats/stats.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "levels/duration.h"
#include "src/api/base/context.h"
#include "src/api/queues/queues.h"
#include "src/core/base/utf8.h"

namespace rung::api {

namespace {

constexpr Ms kHiddenAfter = std::chrono::hours{24};  // older nodes are shown only on request
constexpr Ms kOverviewCounts{100};                   // ended tasks, for /v1/overview
constexpr Ms kOverviewWithin{60'000};
constexpr Ms kMaxOverdue{60'000};
constexpr std::size_t kMostQueues = 200;

// Members of a node. `taken_at`: when it acquired the latest of its shards.
Json no_shards() {
  return {{"taken_at", nullptr}, {"shards", Json::array()}, {"overdue", 0}, {"oldest_overdue_ms", nullptr}};
}

struct Nodes {
  EpochMs now;
  std::vector<NodeRow> rows;
  std::string config;   // fingerprint that most live nodes have; "" = none is the most frequent
  bool differ = false;  // live nodes have different ones
  // The shards that a node owns by valid leases, and those that no node owns.
  std::map<int, Json> held;
  Json unowned = no_shards();
  std::size_t hidden = 0;  // number of nodes not shown

  bool is_live(const NodeRow& node) const { return node.expires_at > now; }
};

// REQUIRES: rows are read.
void compare_configs(Nodes& nodes) {
  std::map<std::string, int> count;
  for (const NodeRow& node : nodes.rows) {
    if (nodes.is_live(node) && !node.config.empty()) ++count[node.config];
  }
  nodes.differ = count.size() > 1;
  int most = 0;
  for (const auto& [config, times] : count) {
    if (times == most) nodes.config.clear();
    if (times > most) nodes.config = config;
    most = std::max(most, times);
  }
}

void add(Json& owned, const ShardRow& shard, const std::map<int, ShardOverdue>& late, EpochMs now) {
  owned["shards"].push_back(shard.shard);
  const Json taken = time_or_null(shard.acquired_at);
  owned["taken_at"] = std::max(owned["taken_at"], taken);  // null is less than any text
  const auto it = late.find(shard.shard);
  if (it == late.end()) return;
  owned["overdue"] = owned["overdue"].get<std::int64_t>() + it->second.tasks;
  const Json oldest = (now - it->second.oldest).count();
  owned["oldest_overdue_ms"] = std::max(owned["oldest_overdue_ms"], oldest);
}

// `all`: also nodes that ended over a day ago.
Nodes read_nodes(MysqlStore& store, EpochMs now, bool all) {
  std::vector<NodeRow> rows = store.nodes();
  const std::vector<ShardRow> shards = store.shards();
  std::map<int, ShardOverdue> late;
  for (const ShardOverdue& one : store.overdue()) late[one.shard] = one;
  Nodes nodes;
  nodes.now = now;
  for (const ShardRow& shard : shards) {
    Json& owned =
        is_owned(shard, now) ? nodes.held.try_emplace(shard.owner, no_shards()).first->second : nodes.unowned;
    add(owned, shard, late, now);
  }
  for (NodeRow& row : rows) {
    const bool ended_long_ago = row.expires_at + kHiddenAfter < now && !nodes.held.contains(row.id);
    if (ended_long_ago && !all) {
      ++nodes.hidden;
    } else {
      nodes.rows.push_back(std::move(row));
    }
  }
  compare_configs(nodes);
  return nodes;
}

Json problems_json(const std::vector<HealthProblem>& problems) {
  Json json = Json::array();
  for (const HealthProblem& p : problems)
    json.push_back({{"name", p.name}, {"detail", p.detail}, {"since", to_rfc3339(p.since)}});
  return json;
}

Json node_json(const Nodes& nodes, const NodeRow& node) {
  const bool live = nodes.is_live(node);
  const auto it = nodes.held.find(node.id);
  // A clean shutdown sets expires_at to its time.
  const char* const state = live ? "live" : node.expires_at > node.seen_at ? "dead" : "left";
  Json json = {
      {"node", node.name},
      {"state", state},
      {"since", to_rfc3339(live ? node.started_at : node.expires_at)},
      {"started_at", to_rfc3339(node.started_at)},
      {"seen_at", to_rfc3339(node.seen_at)},
      {"expires_at", to_rfc3339(node.expires_at)},
      {"version", node.version},
      {"address", node.address},
      {"config", text_or_null(node.config)},
      {"config_differs", nodes.differ && live && !node.config.empty() && node.config != nodes.config},
      {"problems", problems_json(node.problems)}};
  json.update(it == nodes.held.end() ? no_shards() : it->second);
  return json;
}

Json unowned_json(const Nodes& nodes) {
  Json json = nodes.unowned;
  json.erase("taken_at");
  return json;
}

// Tasks that are overdue by more than a bound. Not those of queues that something holds back: they are late
// by intent.
struct LateTasks {
  std::size_t tasks = 0;  // counting stops at kMostLate of each shard and state
  std::optional<DueEntry> oldest = {};
};

LateTasks read_late(MysqlStore& store, EpochMs due_before) {
  std::vector<int> all(kShards);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> held_back;
  for (const QueueGate& gate : gates_in_force(store)) held_back.push_back(gate.queue);
  LateTasks late;
  // Publishes without a confirm, and silences that nobody ended, are overdue too.
  for (const State state : {State::scheduled, State::publishing, State::awaiting}) {
    for (const DueEntry& entry : store.due(state, all, std::nullopt, due_before, kMostLate, held_back)) {
      ++late.tasks;
      if (!late.oldest || entry.at < late.oldest->at) late.oldest = entry;
    }
  }
  return late;
}

// `share`: of the deliveries that no gate held up; null: there were none.
Json promise_json(const PromiseCounts& counts) {
  const std::int64_t all = counts.in_time + counts.late;
  return {{"share", all > 0 ? Json(static_cast<double>(counts.in_time) / static_cast<double>(all)) : Json()},
          {"in_time", counts.in_time},
          {"late", counts.late},
          {"gated", counts.gated}};
}

void add_counts(Json& json, const TaskCount& count) {
  std::map<State, std::int64_t> totals;
  std::int64_t overdue = 0;
  for (const QueueStat& q : count.queues) {
    totals[q.state] += q.tasks;
    overdue += q.overdue;
    json["by_queue"].push_back({{"queue", text_or_null(q.queue)},
                                {"state", to_word(q.state)},
                                {"tasks", q.tasks},
                                {"oldest_due_at", time_or_null(q.oldest_due_at)},
                                {"overdue", q.overdue}});
  }
  json["totals"] = Json::object();
  for (const auto& [state, tasks] : totals) json["totals"][std::string(to_word(state))] = tasks;
  json["ended_counted_at"] = time_or_null(count.ended_at);
  json["overdue"] = overdue;
}

// `count_for`: how long ended tasks are counted.
Json stats_json(MysqlStore& store, TaskCounter& counter, Ms max_overdue, Ms count_for) {
  const EpochMs now = store.now();
  Json json = {{"now", to_rfc3339(now)}, {"by_queue", Json::array()}, {"late_by", Json::array()}};
  add_counts(json, counter.count(store, now, count_for));
  for (const PromiseRow& row : store.promises()) {
    json["late_by"].push_back({{"queue", row.queue},
                               {"last_hour", promise_json(row.last_hour)},
                               {"last_day", promise_json(row.last_day)}});
  }
  const Nodes nodes = read_nodes(store, now, false);
  const LateTasks late = read_late(store, now - max_overdue);
  json["overdue_beyond_bound"] = late.tasks;
  json["oldest_overdue_ms"] = late.oldest ? Json((now - late.oldest->at).count()) : Json();
  json["oldest_overdue_id"] = late.oldest ? Json(late.oldest->id.str()) : Json();
  json["nodes"] = Json::array();
  for (const NodeRow& node : nodes.rows) {
    if (nodes.is_live(node)) json["nodes"].push_back(node_json(nodes, node));
  }
  json["unowned"] = unowned_json(nodes);
  return json;
}

// 30 minutes are enough for all that is kept.
constexpr std::array kSteps{1, 2, 5, 10, 15, 20, 30, 60};

std::int64_t steps_in(const ActivityRange& range) {
  return (range.until - range.from).count() / range.step.count();
}

}  // namespace

bool is_owned(const ShardRow& shard, EpochMs now) {
  return shard.owner != 0 && shard.expires_at && *shard.expires_at > now;
}

// `all=true`: also nodes that ended over a day ago.
Response list_nodes(Context& context, const Call& call) {
  const Nodes nodes = context.reads.read(
      [&](MysqlStore& store) { return read_nodes(store, store.now(), call.query.flag("all")); });
  Json json = page_by_id(
      "nodes", nodes.rows, call.query.page(), [](const NodeRow& node) { return node.id; },
      [&](const NodeRow& node) { return node_json(nodes, node); });
  json["unowned"] = unowned_json(nodes);
  json["not_shown"] = nodes.hidden;
  return answer(200, json);
}

// `max_overdue=1m`: later than this is beyond the bound.
Response show_stats(Context& context, const Call& call) {
  const std::string bound = call.query.text("max_overdue");
  const Ms max_overdue = bound.empty() ? kMaxOverdue : *levels::parse_duration(bound);
  return answer(200, context.reads.read([&](MysqlStore& store) {
    return stats_json(store, context.counter, max_overdue, context.counting_stats);
  }));
}

// What stats say, and the queues: those that are held first, and as many as a page shows.
Response show_overview(Context& context, const Call&) {
  Response response;
  const auto read = [&context] {
    return context.reads.result_of([&](MysqlStore& store) {
      Json json = stats_json(store, context.counter, kMaxOverdue, kOverviewCounts);
      json.update(overview_queues(read_queues(store), kMostQueues));
      return escape_controls_in_json(dump(json)) + "\n";
    });
  };
  response.body =
      need(context.overview.get(read, kOverviewWithin).value_or(transient("the database is too slow")));
  return response;
}

// The database's time, by which tasks are due: a client's clock may be wrong.
Response show_now(Context& context, const Call&) {
  const EpochMs now = context.reads.read([](MysqlStore& store) { return store.now(); });
  return answer(200, {{"now", to_rfc3339(now)}});
}

Response show_health(Context& context, const Call&) {
  if (!context.vitals()) throw Problem(503, "the event loop does not respond: this process hangs");
  return answer(200, {{"status", "ok"}});
}

Response show_ready(Context& context, const Call&) {
  const auto vitals = context.vitals();
  Json checks = Json::object();
  const auto check = [&](const char* name, bool ok) { checks[name] = ok; };
  const Vitals v = vitals.value_or(Vitals{});
  check("broker", v.broker_consuming && v.broker_publishing);
  check("database", v.database);
  check("shards", v.shards > 0);
  check("taking", vitals.has_value() && !v.draining);
  for (const HealthProblem& p : v.problems) {
    if (p.not_ready) check(p.name.c_str(), false);
  }
  std::string missing;
  for (const auto& [name, ok] : checks.items()) {
    if (!ok.get<bool>()) missing.append(missing.empty() ? "" : ", ").append(name);
  }
  const Json problems = problems_json(v.problems);
  if (missing.empty()) {
    return answer(200,
                  {{"status", "ready"}, {"checks", checks}, {"problems", problems}, {"config", v.config}});
  }
  throw Problem(503, "not ready: " + missing, {{"checks", checks}, {"problems", problems}});
}

// `queue`: what it may do to this queue; empty: to what names no queue.
Response show_you(Context&, const Call& call) {
  const auto queue = call.query.has("queue") ? std::optional(call.query.text("queue")) : std::nullopt;
  return answer(200, person_json(call.person, queue));
}

std::optional<ActivityRange> activity_range(ActivityRange range, EpochMs now) {
  // The minute of `now` is not over, and has its point all the same.
  const EpochMs oldest = bucket_of(now - kActivityKept, kActivityMinute) + kActivityMinute;
  const EpochMs from = std::max(range.from, oldest), until = std::min(range.until, now + Ms{1});
  if (from >= until) return std::nullopt;
  if (range.queue.empty()) range.queue = kAllQueues;
  for (const int minutes : kSteps) {
    range.step = std::chrono::minutes{minutes};
    range.from = bucket_of(from, range.step);
    range.until = bucket_of(until - Ms{1}, range.step) + range.step;
    if (steps_in(range) <= kMostActivityPoints) break;
  }
  return range;
}

Json read_activity(MysqlStore& store, const ActivityRange& asked, EpochMs now) {
  Ms step = kActivityMinute;
  Json points = Json::array();
  if (const auto range = activity_range(asked, now)) {
    step = range->step;
    const std::vector<ActivityPoint> there = store.activity(*range);
    auto next = there.begin();
    for (EpochMs at = range->from; at < range->until; at = at + step) {
      const bool has = next != there.end() && next->at == at;
      const ActivityCounts counts = has ? (next++)->counts : ActivityCounts{};
      points.push_back({{"at", to_rfc3339(at)},
                        {"failed", counts.failed},
                        {"retried", counts.retried},
                        {"succeeded", counts.succeeded}});
    }
  }
  return {{"step_s", std::chrono::duration_cast<std::chrono::seconds>(step).count()},
          {"points", std::move(points)}};
}

std::optional<std::string> aggregated_as(const RuleBook& rules, const std::string& queue) {
  const bool own = queue.empty() || queue == kAllQueues || rules.queues().contains(queue) ||
                   rules.pattern_of(queue) != nullptr;
  return own ? std::nullopt : std::optional<std::string>(kOtherQueues);
}

// `queue`, `from` and `to`: the last hour of all queues, if nothing is said.
Response show_activity(Context& context, const Call& call) {
  const std::string queue = call.query.text("queue");
  const auto from = call.query.time("from"), to = call.query.time("to");
  if (from && to && *from >= *to) throw Problem(FieldErrors{{"to", "must be later than from"}});
  Json json = context.reads.read([&](MysqlStore& store) {
    const EpochMs now = store.now(), until = to.value_or(now);
    return read_activity(store, {queue, from.value_or(until - kUsualActivity), until}, now);
  });
  json["aggregated_as"] = text_or_null(aggregated_as(*context.rules(), queue).value_or(""));
  return answer(200, json);
}

}  // namespace rung::api
