// Which path and method does what: the one table. openapi.json is held against it by a test.
// Thread: immutable after construction; handlers run many at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/http/message.h"

namespace rung::http {

struct Call {
  const Request& request;
  std::string id;   // what stands where the pattern has {id}; "" where it has none
  std::string who;  // for the audit
};

struct Route {
  std::string_view method, pattern;  // "POST", "/v1/tasks/{id}/cancel"
  enum class Needs { nothing, read, full } needs;
  std::function<Response(const Call&)> handle;
  bool for_probes = false;  // also answered on a spare connection
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // nullptr: none
    std::string id;
    std::string allow;  // the methods that the path has, where it has not this one
  };
  Match match(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  const std::vector<Route> routes_;
};

}  // namespace rung::http
