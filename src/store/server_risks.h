// Risks in a database server's settings: for `rung doctor`, and for the log at start.
// Thread: a pure function.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rung {

// Global variables, names in lower case. `group_members`: the number of active members of a Group
// Replication, if known.
using ServerVariables = std::map<std::string, std::string>;

struct ServerRisk {
  std::string name;    // "database.wsrep": its name in `rung doctor`
  std::string what;    // a sentence
  std::string fix;     // the command, or the change, that fixes it
  bool serves = true;  // false: Rung cannot work with it
};
std::vector<ServerRisk> server_risks(const ServerVariables& variables);

}  // namespace rung
