// Maps paths and methods to handlers: the only such table. A test compares openapi.json with it.
// Thread: immutable after construction; many handlers run at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/http/request/actions.h"
#include "src/http/request/message.h"

namespace rung::http {

struct Call {
  const Request& request;
  std::string id;   // the text in place of {id} or {queue}; "" if the pattern has neither
  std::string who;  // for the audit
  Person person;    // whose role allows the route's action; the handler checks the queues
};

struct Route {
  std::string_view method, pattern;  // "POST", "/v1/tasks/{id}/cancel"; "/console/*": all below it
  Action action;                     // says which role is needed (actions.h)
  std::function<Response(const Call&)> handle;
  bool for_probes = false;  // also answered on a spare connection
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // nullptr: none
    std::string id;
    std::string allow;  // the path's methods, if it lacks this one
  };
  Match match(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  const std::vector<Route> routes_;
};

}  // namespace rung::http
