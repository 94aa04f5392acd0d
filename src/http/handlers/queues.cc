// /v1/queues: pause and resume a queue. Pauses are kept in the database: every sidecar reads them there
// (src/bridge/gates/gates.h).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "src/api/json/fields.h"
#include "src/api/queues/gates.h"
#include "src/api/queues/pauses.h"
#include "src/api/rules/config.h"
#include "src/api/tasks/pages.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

// Whether the database knows the queue.
Result<bool> has_seen(MysqlStore& store, const std::string& queue) {
  const auto attached = store.attachments({&queue, 1});
  if (!attached) return tl::unexpected(attached.error());
  if (!attached->empty()) return true;
  const auto tasks = store.count({.queue = queue}, 1);
  if (!tasks && tasks.error().kind == Error::Kind::permanent) return false;  // a pattern, not a queue
  if (!tasks) return tl::unexpected(tasks.error());
  return *tasks > 0;
}

template <typename T>
Response tell(const Call& call, const Result<T>& pause) {
  if (pause) return answer(200, api::to_json(*pause));
  if (pause.error().kind == Error::Kind::permanent)
    return problem(400, pause.error().message, call.request.path);
  return problem(pause.error(), call.request.path);
}

}  // namespace

Response pause_queue(Context& context, const Call& call) {
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  api::PauseRequest request;
  request.queue = call.id;
  request.lasts = fields.duration("for", Ms{1});
  request.until = fields.time("until");
  request.reason = fields.text("reason", kErrorBytes).value_or("");
  request.who = call.who;
  if (request.lasts && request.until) fields.wrong("for", "cannot be combined with until");
  fields.finish();
  if (!errors.empty()) return problem(errors, call.request.path);
  return tell(call, context.reads.run_once([&](MysqlStore& store) {
    return api::pause_queue(store, request, context.rules()->targets());
  }));
}

Response resume_queue(Context& context, const Call& call) {
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  api::ResumeRequest request{call.id, call.who, fields.text("reason", kErrorBytes).value_or("")};
  request.probe = fields.flag("probe").value_or(false);
  fields.finish();
  if (!errors.empty()) return problem(errors, call.request.path);
  return tell(call, context.reads.run_once([&](MysqlStore& store) {
    return api::resume_queue(store, request, context.rules()->targets());
  }));
}

Response list_queues(Context& context, const Call& call) {
  auto gates = context.reads.run([](MysqlStore& store) { return api::read_queues(store); });
  if (!gates) return problem(gates.error(), call.request.path);
  return answer(200, api::queues_page(*std::move(gates), call.query.page()));
}

Response show_queue(Context& context, const Call& call) {
  const std::string& queue = call.id;
  const RuleBookPtr rules = context.rules();
  const auto found = context.reads.run([&](MysqlStore& store) -> Result<std::optional<QueueGate>> {
    auto gates = api::read_queues(store);
    if (!gates) return tl::unexpected(gates.error());
    if (const auto gate = std::ranges::find(*gates, queue, &QueueGate::queue); gate != gates->end())
      return std::move(*gate);
    auto known = rules->queues().contains(queue) ? Result<bool>(true) : has_seen(store, queue);
    if (!known) return tl::unexpected(known.error());
    return *known ? std::optional(QueueGate{queue, "flowing", {}, {}, "", "", 0, {}}) : std::nullopt;
  });
  if (!found) return problem(found.error(), call.request.path);
  if (!*found)
    return problem(404,
                   "the queue " + api::shown(queue) +
                       " is not known: it has no task, is not attached, and the config does not name it: "
                       "GET /v1/queues",
                   call.request.path);
  Json json = api::to_json(**found);
  json["config"] = api::queue_config_json(*rules, queue);
  return answer(200, json);
}

}  // namespace rung::http
