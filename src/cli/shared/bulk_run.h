// An action on many tasks, created from the command line, and carried out by the sidecars: its ids and its
// progress are in the database. Thread: main's. Prints errors to stderr; returns exit codes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/core/base/time.h"
#include "src/store/bulks.h"

namespace CLI {
class App;
}

namespace rung::cli {

struct BulkOptions {
  std::vector<Field> filter;   // which tasks
  std::vector<Field> request;  // "rate", "limit", "canary", ...
  bool yes = false, dry_run = false;
  std::string by;  // of a dry run: what to count by
};
void add_bulk_options(CLI::App& command, BulkOptions& options, BulkAction action);

// Counts the tasks that match, asks for confirmation (unless --yes), stores their ids, and watches.
// `request`: for POST /v1/bulks; the filter and the options are added.
int make_bulk(const CLI::App& command, const BulkOptions& options, BulkAction action, Json request);

// Shows its progress until it has ended or is paused, and says if no sidecar runs. Ctrl-C pauses it.
int watch_bulk(Session& session, Json bulk);

// Pauses, resumes or aborts it: the bulk as it is then. One that has ended keeps its state.
Result<Json> control_bulk(Session& session, const std::string& id, const std::string& action,
                          const Json& body = Json::object());

// The filter as flags, and what fails in its cause: "--cause 9f2c41d07ab3: CardError: card declined".
std::string tasks_of(Session& session, const Json& bulk);

// "cancel: 980 of 1000 done, 15 refused: ..., 5 unchanged".
std::string outcome_of(const Json& bulk);
// The command for what a stopped bulk has not done.
std::string rest_of(const Json& bulk);

// "[#####.....]", `cells` wide.
std::string bar(std::int64_t done, std::int64_t total, int cells);

}  // namespace rung::cli
