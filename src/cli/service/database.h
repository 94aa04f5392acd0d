// The commands' service by the database itself. Thread: as the store's.
#pragma once

#include <string>

#include "src/cli/service/service.h"
#include "src/config/config.h"
#include "src/core/base/clock.h"

namespace rung::cli {

struct DatabaseParts {
  Store& store;
  const Config& config;
  const Clock& clock;
  std::string who;  // for the audit
};
// REQUIRES: the parts outlive the service.
Service database_service(const DatabaseParts& parts);

// For database_service().
std::unique_ptr<TaskChanges> database_changes(const DatabaseParts& parts);
std::unique_ptr<BulkService> database_bulks(const DatabaseParts& parts);

}  // namespace rung::cli
