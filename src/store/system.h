// The system itself, not tasks: schema, server, events, shared settings. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/server_risks.h"

namespace rung {

// Something that happened to the system itself, not to a task: rung_events, the view retry_events.
struct SystemEvent {
  std::int64_t id = 0;  // given by the store
  EpochMs at;           // given by the store
  std::string node;     // its name; given by the store
  std::string kind;     // a constant word: "topology_repaired", "clock_step" ...
  std::string subject;  // what it happened to: a queue, an exchange, a node; may be ""
  std::string detail;   // for people
};

// The tables.
class SchemaStore {
 public:
  virtual ~SchemaStore() = default;

  // Creates the schema; safe to run twice at once, and again where it was interrupted; refuses a schema newer
  // than this program knows. Returns what it created: "schema", "views" (whose definer is gone) or "".
  virtual Result<std::string> migrate() = 0;
  // Permanent error that says "rung migrate" if the schema is not exactly the one this program needs.
  virtual Result<void> check_schema() = 0;
};

// Events, settings, and the server that answers.
class SystemStore {
 public:
  virtual ~SystemStore() = default;

  // Of the server we are connected to now.
  virtual Result<ServerVariables> server_variables() = 0;
  virtual Result<void> record_event(int node, const SystemEvent& event) = 0;
  virtual Result<std::vector<SystemEvent>> events(int limit) = 0;  // the newest first
  // A setting shared by all instances. Returns the stored value. If there is none, returns `if_absent` and
  // stores it, unless it is "". Concurrent calls get the same answer.
  virtual Result<std::string> setting(std::string_view name, std::string_view if_absent) = 0;
  // "" removes it.
  virtual Result<void> set_setting(std::string_view name, std::string_view value) = 0;
};

}  // namespace rung
