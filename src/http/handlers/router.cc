#include "src/http/handlers/router.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "src/http/access/access.h"
#include "src/http/handlers/context.h"
#include "src/http/request/problem.h"

namespace rung::http {
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
  auto json = api::parse_json(request.body);
  if (!json || takes == Takes::json || json->is_object()) return json;
  return permanent(takes == Takes::maybe ? "the body must be an object, or empty"
                                         : "the body must be an object");
}

// The response, if the person may not act on the queue or the bulk that the call concerns.
std::optional<Response> out_of_scope(Context& context, Scope scope, const Call& call) {
  // A redriver is limited to bulks that redrive, too.
  const bool any_bulk = scope != Scope::bulk || call.person.role >= Role::acts;
  if (call.person.queues == nullptr && any_bulk) return std::nullopt;
  const auto refuse_if_outside = [&](const Result<std::string>& queue) {
    return queue ? refuse_queue(call.person, *queue, call.request.path)
                 : std::optional(problem(queue.error(), call.request.path));
  };
  switch (scope) {
    case Scope::none:
    case Scope::changed:
    case Scope::body:
      break;
    case Scope::queue:
      return refuse_queue(call.person, call.id, call.request.path);
    case Scope::task:
      return refuse_if_outside(queue_of_task(context, call));
    case Scope::cause:
      return refuse_if_outside(queue_of_cause(context, call));
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
  call.query = Query(request.query, route.params, errors);
  // Probes and scrapers may add parameters of their own, and browsers on their way back from a login.
  if (!errors.empty() && !route.id.empty() && request.path.starts_with("/v1/"))
    return problem(errors, request.path);
  const auto json = body_of(request, route.takes);
  if (!json) return problem(400, json.error().message, request.path);
  call.json = &*json;
  if (auto no = out_of_scope(context_, route.scope, call)) return *std::move(no);
  return route.handle(context_, call);
}

Response Router::call(const std::string& method, const std::string& path, Pairs query, std::string_view body,
                      const std::string& who) const {
  Request request;
  request.method = method;
  request.path = decode_path(path);
  request.has_encoded_slash = has_encoded_slash(path);
  request.query = std::move(query);
  request.body = body;
  request.has_body = !body.empty();
  const Match found = match(request);
  if (found.route == nullptr) return no_such_route(found, request);
  // "alice@host (cli)" is for the audit.
  Call call{request, found.id, who, {who.substr(0, who.find('@')), Role::administers, nullptr}};
  return answer(*found.route, call);
}

Response no_such_route(const Router::Match& match, const Request& request) {
  if (match.allow.empty()) return problem(404, "no such path: see /openapi.json", request.path);
  Response response = problem(405, "method not allowed; allowed: " + match.allow, request.path);
  response.headers.emplace_back("Allow", match.allow);
  return response;
}

}  // namespace rung::http
