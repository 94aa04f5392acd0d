#include "src/api/base/context.h"

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

Json body_of(const Request& request, Takes takes) {
  if (takes == Takes::nothing) return {};
  if (takes == Takes::maybe && request.body.empty()) return Json::object();
  auto json = parse_json(request.body);
  if (!json) throw Problem(400, json.error().message);
  if (takes != Takes::json && !json->is_object())
    throw Problem(
        400, takes == Takes::maybe ? "the body must be an object, or empty" : "the body must be an object");
  return *std::move(json);
}

// Throws a 403 if the person may not act on the queue or the bulk that the call concerns.
void check_scope(Context& context, Scope scope, const Call& call) {
  // A redriver is limited to bulks that redrive, too.
  const bool any_bulk = scope != Scope::bulk || call.person.role >= Role::acts;
  if (call.person.queues == nullptr && any_bulk) return;
  switch (scope) {
    case Scope::none:
    case Scope::changed:
    case Scope::body:
      break;
    case Scope::queue:
      return refuse_queue(call.person, call.id);
    case Scope::task:
      return refuse_queue(call.person, queue_of_task(context, call));
    case Scope::cause:
      return refuse_queue(call.person, queue_of_cause(context, call));
    case Scope::bulk:
      return refuse_bulk(context, call);
  }
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
  try {
    // Probes and scrapers may add parameters of their own, and browsers on their way back from a login.
    if (!errors.empty() && !route.id.empty() && request.path.starts_with("/v1/")) throw Problem(errors);
    call.action = route.action;
    call.query = Query(request.query);
    const Json json = body_of(request, route.takes);
    call.json = &json;
    check_scope(context_, route.scope, call);
    return route.handle(context_, call);
  } catch (const Problem& why_not) {
    return problem(why_not, request.path);
  }
}

Problem no_such_route(const Router::Match& match) {
  if (match.allow.empty()) return {404, "no such path: see /openapi.json"};
  return {405, "method not allowed; allowed: " + match.allow, {}, {{"Allow", match.allow}}};
}

std::optional<Vitals> Context::vitals() const {
  return ask_vitals ? answer_within<Vitals>(std::chrono::seconds{2}, ask_vitals) : std::nullopt;
}

TaskRow Context::named(const Task& task) {
  if (task.node == 0) return {task, ""};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = nodes_.find(task.node); known != nodes_.end()) return {task, known->second};
  }
  const auto nodes = reads.result_of([](MysqlStore& database) { return database.nodes(); });
  const std::lock_guard lock(mutex_);
  if (nodes) {
    for (const NodeRow& node : *nodes) nodes_[node.id] = node.name;
  }
  const auto known = nodes_.find(task.node);  // if missing, the next call asks again
  return {task, known != nodes_.end() ? known->second : ""};
}

void no_such_task(const Call& call) {
  throw Problem(404, "no task has the id " + shown(call.id) + "; ids are the digits of retry_id");
}

TaskId task_id_of(const Call& call) {
  const auto id = TaskId::parse(call.id);
  if (!id) no_such_task(call);
  return *id;
}

TaskRow find_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  auto row = context.reads.read([&](MysqlStore& store) { return store.find(id); });
  if (!row) no_such_task(call);
  return *std::move(row);
}

std::string queue_of_task(Context& context, const Call& call) { return find_task(context, call).task.queue; }

}  // namespace rung::api
