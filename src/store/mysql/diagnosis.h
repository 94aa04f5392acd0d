// Facts about a database and about our user's privileges: for `rung doctor`. Read-only.
// Thread: any; blocks, bounded by options.timeout; server_risks() is a pure function.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/base/clock.h"
#include "src/store/mysql/mysql_store.h"

namespace rung {

struct DatabaseFacts {
  ServerVariables variables;
  std::vector<std::string> privileges;  // of our user, on the whole schema, without those of roles
  bool has_role = false;
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

// A risk in the settings of a database server: for `rung doctor`, and for the log at start.
struct ServerRisk {
  std::string name;    // "database.wsrep": its name in `rung doctor`
  std::string what;    // a sentence
  std::string fix;     // the command, or the change, that fixes it
  bool serves = true;  // false: Rung cannot work with it
};
std::vector<ServerRisk> server_risks(const ServerVariables& variables);

}  // namespace rung
