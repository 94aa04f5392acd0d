// Facts about a database and about our user's privileges: for `rung doctor`. Read-only.
// Thread: any; blocks, bounded by options.timeout.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/clock.h"
#include "src/store/store.h"

namespace rung {

struct DatabaseFacts {
  ServerVariables variables;        // and the session's isolation
  std::vector<std::string> grants;  // SHOW GRANTS
  bool has_schema = false;
  int version = 0;         // of Rung's tables; 0 = none
  int newest_version = 0;  // known to this program
  Ms clock_offset{0};      // how far the database's clock is ahead of this machine's
  Ms round_trip{0};        // of the query for it: the offset may be wrong by half of that
};
// Errors: permanent = login refused; transient = not reachable.
Result<DatabaseFacts> diagnose_mysql(const StoreOptions& options, const Clock& clock);

// An address of the database.
struct DatabaseAddress {
  std::string shown;          // "host:port"
  StoreOptions options;       // for this address alone; they refer to the clock
  std::optional<Error> away;  // why it does not serve; none: it does
  bool read_only = false;
};
// One for each address, including hosts that do not resolve. Each has `timeout` to connect.
std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout);

// The privileges that these grants give on the whole schema, in upper case. ALL PRIVILEGES gives all of
// `wanted`. `roles`: set if a role is granted, whose privileges may not be in these lines.
std::set<std::string> granted(const std::vector<std::string>& grants, std::string_view schema,
                              const std::vector<std::string>& wanted, bool* roles);

}  // namespace rung
