// What a database server's settings put at risk: for `rung doctor`, and for the log at start.
// Thread: a pure function.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rung {

// Global variables, names in lower case. `group_members`: how many members of a Group Replication are active,
// where that is known.
using ServerVariables = std::map<std::string, std::string>;

struct ServerRisk {
  std::string name;    // "database.wsrep": as `rung doctor` calls it
  std::string what;    // a sentence
  std::string fix;     // the command, or the change, that mends it
  bool serves = true;  // false: Rung cannot work with it
};
std::vector<ServerRisk> server_risks(const ServerVariables& variables);

}  // namespace rung
