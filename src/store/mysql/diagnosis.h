// What a database says about itself and about our user: for `rung doctor`. Changes nothing.
// Thread: free; blocks, bounded by options.timeout.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/clock.h"
#include "src/store/store.h"

namespace rung {

struct DatabaseFacts {
  ServerVariables variables;        // and the session's isolation
  std::vector<std::string> grants;  // SHOW GRANTS
  bool has_schema = false;
  int version = 0;         // of Rung's tables; 0 = none
  int newest_version = 0;  // that this program knows
  Ms clock_offset{0};      // how far the database's clock is ahead of this machine's
  Ms round_trip{0};        // of the question for it: the offset may be wrong by half of that
};
// Errors: permanent = it refuses the login; transient = not reached.
Result<DatabaseFacts> diagnose_mysql(const StoreOptions& options, const Clock& clock);

// An address of the database.
struct DatabaseAddress {
  std::string shown;          // "host:port"
  StoreOptions options;       // that lead to this one alone; they refer to the clock
  std::optional<Error> away;  // why it does not serve; none: it answers
  bool read_only = false;
};
// One for each address, hosts that are not known among them. Each has `timeout` to connect.
std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout);

// The privileges that these grants give on all of the schema, in upper case. ALL PRIVILEGES gives all of
// `wanted`. `roles`: set where a role is granted, whose privileges these lines may not show.
std::set<std::string> granted(const std::vector<std::string>& grants, std::string_view schema,
                              const std::vector<std::string>& wanted, bool* roles);

}  // namespace rung
