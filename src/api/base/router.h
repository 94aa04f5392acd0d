// Finds the route of a request, and calls its handler: the same for a request of the network and for one of
// this process. Thread: immutable after construction; many handlers run at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/base/query.h"
#include "src/api/base/rights.h"
#include "src/core/machine/machine.h"
#include "src/core/rules/people.h"

namespace rung::api {

class Context;

// Of which queue a token with `queues` must have the right. Each route names it; the router checks it before
// the handler runs, except for two.
enum class Scope : std::uint8_t {
  none,     // the action concerns no queue, or tells what every token may read
  queue,    // {queue} of the path
  task,     // the queue of the task {id}
  changed,  // the same, checked by decide() under the row's lock: Call::by_hand()
  cause,    // the queue of the {cause}
  bulk,     // the queue of the bulk {id}, and its target
  body      // the queues that the body names: the handler checks each
};

struct Call {
  const Request& request;
  std::string id;      // the text in place of {id}, {cause} or {queue}, decoded; "" if the pattern has none
  std::string who;     // for the audit
  Person person = {};  // whose role allows the route's action
  Query query = {};
  const Json* json = nullptr;  // the body, as the route takes it
  // Asks for memory, before the handler reads what takes so many bytes; false: there is none now.
  std::function<bool(std::int64_t bytes)> reserve = [](std::int64_t) { return true; };

  Response problem(int status, std::string_view detail, const Json& more = {}) const {
    return api::problem(status, detail, request.path, more);
  }
  Response problem(const FieldErrors& errors) const { return api::problem(errors, request.path); }
  Response problem(const Error& error) const { return api::problem(error, request.path); }

  ByHand by_hand(std::optional<std::uint32_t> version, std::string reason) const {
    return {who, version, std::move(reason), 0, person.queues};
  }
};

// What the body of a request must be.
enum class Takes : std::uint8_t { nothing, object, maybe, json };  // maybe: an object, or empty

struct Route {
  std::string_view method, pattern;  // "POST", "/v1/tasks/{id}/cancel"; "/console/*": all below it
  std::string_view id;               // of the operation in the OpenAPI document; "" = it is not there
  Action action;                     // says which role is needed
  Scope scope;
  Response (*handle)(Context&, const Call&);
  std::span<const Param> params = {};  // of its query, and headers
  Takes takes = Takes::nothing;
  bool for_probes = false;  // also answered on a spare connection
};

// What a token with `queues` may do to those only names them; the handler itself may look for them in two
// bodies alone.
constexpr bool name_their_queues(std::span<const Route> routes) {
  return std::ranges::all_of(routes,
                             [](const Route& route) {
                               return right_of(route.action).by_queue == (route.scope != Scope::none);
                             }) &&
         std::ranges::count(routes, Scope::body, &Route::scope) <= 2;
}

class Router {
 public:
  // REQUIRES: `context` outlives it.
  Router(Context& context, std::vector<Route> routes) : context_(context), routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // nullptr: none
    std::string id;
    std::string allow;  // the path's methods, if it lacks this one
  };
  Match match(const Request& request) const;
  // REQUIRES: the person's role allows the route's action.
  Response answer(const Route& route, Call& call) const;

 private:
  Context& context_;
  const std::vector<Route> routes_;
};

// The response to a request for which there is no route.
Response no_such_route(const Router::Match& match, const Request& request);

}  // namespace rung::api
