// The API inside a command: the same handlers, over the store of its config, without a server, tokens and
// bounds for many clients. Thread: one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/http/handlers/context.h"

namespace rung::http {

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

}  // namespace rung::http
