// Connection options of a store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/core/base/addresses.h"
#include "src/core/base/time.h"

namespace rung {

class CauseBook;
class CauseRules;

struct StoreOptions {
  std::vector<Url> urls;  // the addresses of one database and schema. Read-only servers are skipped
  // Shared by the connections of one process, so that all use the same address; none: each has its own.
  std::shared_ptr<Addresses> addresses;
  // The same for what this process knows of causes (causes.h).
  std::shared_ptr<CauseBook> causes;
  std::shared_ptr<const CauseRules> cause_rules;  // the config's `causes`; nullptr: it has none
  std::string password_file;                      // its first line replaces the URLs' passwords
  std::string tls = "off";    // off or verify; encryption without verification is not offered
  std::string ca, cert, key;  // for tls: verify, which checks CA and host
  bool migrate = true;
  int connections = 3;
  Ms timeout{std::chrono::seconds{10}};  // connect, read, write
  // Message headers by whose values tasks can be found (rung_task_headers). Indexed when a task is inserted.
  std::vector<std::string> index_headers;
};

}  // namespace rung
