// What is going on: /v1/nodes (the instances), /v1/stats (how late tasks are), /v1/overview, /v1/now (the
// database's time), /v1/config, /v1/events, /v1/activity (what failed, was retried and succeeded, by minute),
// /v1/audit (all changes by hand).
#include "src/api/stats/stats.h"

#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/queues/gates.h"
#include "src/api/rules/config.h"
#include "src/api/stats/activity.h"
#include "src/api/stats/nodes.h"
#include "src/api/tasks/audit.h"
#include "src/api/tasks/pages.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr Ms kOverviewCounts{100};  // ended tasks, for /v1/overview
constexpr Ms kMaxOverdue{60'000};
constexpr std::size_t kMostQueues = 200;

}  // namespace

// `all=true`: also nodes that ended over a day ago.
Response list_nodes(Context& context, const Call& call) {
  const auto nodes = context.reads.run([&](MysqlStore& store) -> Result<Json> {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    const auto read = api::read_nodes(store, *now, call.query.flag("all"));
    if (!read) return tl::unexpected(read.error());
    return api::nodes_page(*read, *now, call.query.page());
  });
  return nodes ? answer(200, *nodes) : problem(nodes.error(), call.request.path);
}

// `max_overdue=1m`: later than this is beyond the bound.
Response show_stats(Context& context, const Call& call) {
  const std::string bound = call.query.text("max_overdue");
  const auto max_overdue = levels::parse_duration(bound.empty() ? "1m" : bound);
  const auto stats = context.reads.run([&](MysqlStore& store) -> Result<Json> {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    const auto read = api::read_stats(store, context.counter, {*now, *max_overdue, context.counting_stats});
    if (!read) return tl::unexpected(read.error());
    Json json = {{"now", to_rfc3339(*now)}};
    json.update(api::to_json(*read, *now));
    return json;
  });
  return stats ? answer(200, *stats) : problem(stats.error(), call.request.path);
}

// What stats say, and the queues: those that are held first, and as many as a page shows.
Response show_overview(Context& context, const Call& call) {
  const auto overview = context.overview.get([&] {
    return context.reads.run([&](MysqlStore& store) -> Result<std::string> {
      const auto now = store.now();
      if (!now) return tl::unexpected(now.error());
      const auto stats = api::read_stats(store, context.counter, {*now, kMaxOverdue, kOverviewCounts});
      if (!stats) return tl::unexpected(stats.error());
      auto queues = api::read_queues(store);
      if (!queues) return tl::unexpected(queues.error());
      Json json = {{"now", to_rfc3339(*now)}};
      json.update(api::to_json(*stats, *now));
      json.update(api::overview_queues(*std::move(queues), kMostQueues));
      return escape_controls_in_json(api::dump(json)) + "\n";
    });
  });
  if (!overview) return problem(overview.error(), call.request.path);
  Response response;
  response.body = *overview;
  return response;
}

// The rules of this instance: another one may have others for a while (GET /v1/nodes compares them).
Response show_config(Context& context, const Call&) {
  Json json = api::config_json(*context.rules());
  json["index_headers"] = context.index_headers;
  const auto vitals = context.vitals();
  json["fingerprint"] = vitals ? Json(vitals->config) : Json();
  json["version"] = context.version;
  return answer(200, json);
}

// The database's time, by which tasks are due: a client's clock may be wrong.
Response show_now(Context& context, const Call& call) {
  const auto now = context.reads.run([](MysqlStore& store) { return store.now(); });
  return now ? answer(200, {{"now", to_rfc3339(*now)}}) : problem(now.error(), call.request.path);
}

// `watch=4711,4712`: tasks whose changes are told.
Response show_events(Context& context, const Call& call) {
  std::vector<TaskId> watched;
  for (const std::string& word : call.query.words("watch")) {
    const auto id = TaskId::parse(word);
    if (!id || watched.size() == LiveFeed::kMostOfOneViewer)
      return problem(FieldErrors{{"watch", "must be at most " + std::to_string(LiveFeed::kMostOfOneViewer) +
                                               " ids of tasks, with commas between them"}},
                     call.request.path);
    watched.push_back(*id);
  }
  Response response;
  response.stream = context.live.open(call.who, std::move(watched), call.request.last_event_id);
  if (response.stream == nullptr) {
    response = problem(503,
                       "too many streams of events: a quarter of http.connections, of which one token may "
                       "have three quarters from one address",
                       call.request.path);
    response.headers.emplace_back("Retry-After", "10");
    return response;
  }
  response.type = "text/event-stream";
  response.headers.emplace_back("X-Accel-Buffering", "no");  // of a proxy
  return response;
}

// `queue`, `from` and `to`: the last hour of all queues, if nothing is said.
Response show_activity(Context& context, const Call& call) {
  const std::string queue = call.query.text("queue");
  const auto from = call.query.time("from"), to = call.query.time("to");
  if (from && to && *from >= *to)
    return problem(FieldErrors{{"to", "must be later than from"}}, call.request.path);
  auto activity = context.reads.run([&](MysqlStore& store) -> Result<Json> {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    const EpochMs until = to.value_or(*now);
    const auto read =
        api::read_activity(store, {queue, from.value_or(until - api::kUsualActivity), until}, *now);
    if (!read) return tl::unexpected(read.error());
    return api::to_json(*read);
  });
  if (!activity) return problem(activity.error(), call.request.path);
  const auto with = api::counted_with(*context.rules(), queue);
  (*activity)["counted_with"] = with ? Json(*with) : Json();
  return answer(200, *activity);
}

namespace {

AuditFilter audit_filter_of(const Query& query, FieldErrors& errors) {
  AuditFilter filter;
  const api::Page page = query.page();
  filter.limit = page.limit;
  if (!page.cursor.empty()) {
    filter.after = api::audit_place_of(page.cursor);
    if (!filter.after) errors.push_back({"cursor", "must be the `next_cursor` of the previous page"});
  }
  filter.queue = query.text("queue");
  filter.what = query.text("action");
  filter.who = query.text("who");
  if (const std::string bulk = query.text("bulk"); !bulk.empty()) {
    filter.bulk = api::id_of_cursor(bulk).value_or(0);
    if (filter.bulk == 0) errors.push_back({"bulk", "must be the id of a bulk"});
  }
  filter.since = query.time("since");
  filter.until = query.time("until");
  return filter;
}

}  // namespace

Response list_audit(Context& context, const Call& call) {
  FieldErrors errors;
  const AuditFilter filter = audit_filter_of(call.query, errors);
  if (!errors.empty()) return problem(errors, call.request.path);
  const auto page = context.reads.run([&](MysqlStore& store) { return store.audit_log(filter); });
  return page ? answer(200, api::to_json(*page))
              : filter_problem({.queue = filter.queue}, page.error(), call.request.path);
}

}  // namespace rung::http
