// The commands' service by the HTTP API of an instance (docs/http.md): whoever uses it needs neither the
// database's nor the broker's password. Thread: main's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/cli/service/service.h"
#include "src/config/config.h"

namespace rung::cli {

// Asks for the instance's time first, so that a wrong address or token is reported before anything is done.
// Errors also: the file with the token.
Result<Service> api_service(const ApiOptions& options);

class ApiClient;
using ApiClientPtr = std::shared_ptr<ApiClient>;
// For api_service().
std::unique_ptr<TaskQueries> api_queries(const ApiClientPtr& client);
std::unique_ptr<TaskChanges> api_changes(const ApiClientPtr& client);
std::unique_ptr<BulkService> api_bulks(const ApiClientPtr& client);

}  // namespace rung::cli
