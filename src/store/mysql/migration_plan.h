// What `rung migrate` would apply to a database, and what that costs: for `rung migrate --plan`. Changes
// nothing; the right to SELECT is enough. Thread: any; blocks, bounded by options.timeout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sql/sql.h"
#include "src/core/clock.h"
#include "src/store/store.h"

namespace rung {

struct PlannedChange {
  std::string table;
  sql::TableWork work = sql::TableWork::instant;
  std::int64_t rows = 0;           // estimate of the server
  double seconds_per_million = 0;  // measured, on another machine
  double seconds = 0;              // estimate for `rows`
  std::int64_t disk_bytes = 0;     // estimate of the free disk that is needed meanwhile
};

struct PlannedMigration {
  const sql::Migration* migration = nullptr;
  std::vector<PlannedChange> changes;
};

struct MigrationPlan {
  std::string server;  // "MariaDB 10.11.6"
  int version = 0;     // of the schema; 0 = there is none
  std::vector<PlannedMigration> pending;
};

// Errors: permanent = login refused, or the schema is newer than this program; transient = not reachable.
Result<MigrationPlan> plan_migrations(const StoreOptions& options, const Clock& clock);

}  // namespace rung
