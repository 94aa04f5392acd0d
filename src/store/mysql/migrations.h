// The migrations of a database, for `rung migrate` and the start of `rung run`: what is missing and what that
// costs, and how it is applied step by step. Thread: any; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sql/sql.h"
#include "src/core/base/clock.h"
#include "src/store/store.h"

namespace rung {

struct PlannedChange {
  std::string table;
  sql::TableWork work = sql::TableWork::instant;
  std::int64_t rows = 0;           // estimate of the server
  double seconds_per_million = 0;  // measured on another machine; if instant, for any number
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

// Changes nothing; the right to SELECT is enough. Errors: permanent = login refused, or the schema is newer
// than this program; transient = not reachable.
Result<MigrationPlan> plan_migrations(const StoreOptions& options, const Clock& clock);

// Called before each migration is applied, and again when it is applied, with the time that it took.
using OnMigration = std::function<void(std::string_view migration, std::optional<Ms> took)>;

// As Store::migrate(), on a connection of its own. Takes as long as the migrations take.
Result<std::vector<std::string>> apply_migrations(const StoreOptions& options, const Clock& clock,
                                                  const OnMigration& tell);

}  // namespace rung
