// What each migration costs, and whether older sidecars may run beside it: mysql/migrations/plan.json.
// Thread: a pure function.
#pragma once

#include <string_view>
#include <vector>

#include "sql/sql.h"

namespace rung::sql {

// Fills in `what`, `old_may_run`, `old_note` and `changes`. REQUIRES: the JSON has an entry for each
// migration (else the program ends: the build is broken).
void add_plan(std::string_view json, std::vector<Migration>& migrations);

}  // namespace rung::sql
