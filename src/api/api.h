// The API without sockets: its routes, its document, and the API inside a command.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/context.h"

namespace rung::api {

// Those that need no socket.
std::span<const Route> api_routes();
// The OpenAPI document of these routes.
std::string openapi_document(const std::vector<Route>& routes);
std::string openapi_json();  // openapi.json, embedded by the build

// The same handlers, over the store of a command's config, without a server, tokens and bounds for many
// clients. Thread: one.
class LocalApi {
 public:
  // `parts`: their bridging answers before it returns. `who`: calls it, for the audit, and may do everything.
  // REQUIRES: `clock` outlives it.
  LocalApi(ContextParts parts, std::string who, const Clock& clock);

  // `target`: the path with its query, as in a request. Response::error: of a store, as it was.
  Response call(const std::string& method, std::string_view target, std::string_view body);
  // The connections that the handlers use.
  Reads& reads() { return context_.reads; }

 private:
  const std::string who_;
  Context context_;
  const Router router_;
};

}  // namespace rung::api
