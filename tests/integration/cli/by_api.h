// Which way the program's commands go in this run of the suite: to the database, or with RUNG_TEST_CLI_BY=api
// to an instance's HTTP API. Thread: any.
#pragma once

#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

namespace rung::cli {

inline bool by_api() {
  const char* by = std::getenv("RUNG_TEST_CLI_BY");
  return by != nullptr && std::string_view(by) == "api";
}

// The commands that work over HTTP, too.
inline const std::set<std::string>& api_commands() {
  static const std::set<std::string> kCommands = {
      "list",   "show",    "history", "audit", "submit", "cancel", "reschedule", "fire",   "retry", "redrive",
      "finish", "discard", "edit",    "bulk",  "causes", "queues", "pause",      "resume", "stats", "nodes"};
  return kCommands;
}

}  // namespace rung::cli
