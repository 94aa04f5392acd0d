#include "src/api/base/context.h"

#include <condition_variable>
#include <nlohmann/json.hpp>
#include <optional>

namespace rung::api {

namespace {

// The text in place of the pattern's {id}; none if the path doesn't match.
std::optional<std::string> fits(std::string_view pattern, std::string_view path) {
  const std::size_t at = pattern.find('{');
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    return path.starts_with(pattern) ? std::optional<std::string>("") : std::nullopt;
  }
  if (at == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view id = path.substr(at, path.size() - before.size() - after.size());
  return id.find('/') == std::string_view::npos ? std::optional<std::string>(id) : std::nullopt;
}

// Error: what the body must be.
Result<Json> body_of(const Request& request, Takes takes) {
  if (takes == Takes::nothing) return Json();
  if (takes == Takes::maybe && request.body.empty()) return Json(Json::object());
  auto json = parse_json(request.body);
  if (!json || takes == Takes::json || json->is_object()) return json;
  return permanent(takes == Takes::maybe ? "the body must be an object, or empty"
                                         : "the body must be an object");
}

// The response, if the person may not act on the queue or the bulk that the call concerns.
std::optional<Response> out_of_scope(Context& context, Scope scope, const Call& call) {
  // A redriver is limited to bulks that redrive, too.
  const bool any_bulk = scope != Scope::bulk || call.person.role >= Role::acts;
  if (call.person.queues == nullptr && any_bulk) return std::nullopt;
  switch (scope) {
    case Scope::none:
    case Scope::changed:
    case Scope::body:
      break;
    case Scope::queue:
      return refuse_queue(call.person, call.id, call.request.path);
    case Scope::task:
      return refuse_queue(call.person, queue_of_task(context, call), call.request.path);
    case Scope::cause:
      return refuse_queue(call.person, queue_of_cause(context, call), call.request.path);
    case Scope::bulk:
      return refuse_bulk(context, call);
  }
  return std::nullopt;
}

}  // namespace

Router::Match Router::match(const Request& request) const {
  Match match;
  for (const Route& route : routes_) {
    const auto id = fits(route.pattern, request.path);
    if (!id) continue;
    if (route.method == request.method) return {&route, decode_segment(*id, request), ""};
    match.allow.append(match.allow.empty() ? "" : ", ").append(route.method);
    if (route.method == "GET") match.allow.append(", HEAD");
  }
  return match;
}

Response Router::answer(const Route& route, Call& call) const {
  const Request& request = call.request;
  FieldErrors errors;
  check_params(request.query, route.params, errors);
  // Probes and scrapers may add parameters of their own, and browsers on their way back from a login.
  if (!errors.empty() && !route.id.empty() && request.path.starts_with("/v1/")) return call.problem(errors);
  call.query = Query(request.query);
  const auto json = body_of(request, route.takes);
  if (!json) return call.problem(400, json.error().message);
  call.json = &*json;
  try {
    if (auto no = out_of_scope(context_, route.scope, call)) return *std::move(no);
    return route.handle(context_, call);
  } catch (const StoreError& e) {
    return e.asked ? call.problem(400, e.error.message) : call.problem(e.error);
  }
}

Response no_such_route(const Router::Match& match, const Request& request) {
  if (match.allow.empty()) return problem(404, "no such path: see /openapi.json", request.path);
  Response response = problem(405, "method not allowed; allowed: " + match.allow, request.path);
  response.headers.emplace_back("Allow", match.allow);
  return response;
}

std::optional<Vitals> Context::vitals() const {
  if (!ask_) return std::nullopt;
  struct PendingReply {
    std::mutex mutex;
    std::condition_variable there;
    std::optional<Vitals> vitals;
  };
  auto pending = std::make_shared<PendingReply>();
  ask_([pending](const Vitals& vitals) {
    const std::lock_guard lock(pending->mutex);
    pending->vitals = vitals;
    pending->there.notify_one();
  });
  std::unique_lock lock(pending->mutex);
  pending->there.wait_for(lock, std::chrono::seconds{2}, [&] { return pending->vitals.has_value(); });
  return pending->vitals;
}

TaskRow Context::named(const Task& task) {
  if (task.node == 0) return {task, ""};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = nodes_.find(task.node); known != nodes_.end()) return {task, known->second};
  }
  const auto nodes = reads.run([](MysqlStore& store) { return store.nodes(); });
  const std::lock_guard lock(mutex_);
  if (nodes) {
    for (const NodeRow& node : *nodes) nodes_[node.id] = node.name;
  }
  const auto known = nodes_.find(task.node);  // if missing, the next call asks again
  return {task, known != nodes_.end() ? known->second : ""};
}

void no_such_task(const Call& call) {
  throw StoreError(
      {Error::Kind::not_found, "no task has the id " + shown(call.id) + "; ids are the digits of retry_id"});
}

TaskId task_id_of(const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) no_such_task(call);
  return *id;
}

TaskRow find_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  auto row = context.reads.read([&](MysqlStore& store) { return need(store.find(id)); });
  if (!row) no_such_task(call);
  return *std::move(row);
}

std::string queue_of_task(Context& context, const Call& call) { return find_task(context, call).task.queue; }

}  // namespace rung::api
