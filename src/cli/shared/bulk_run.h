// An action on many tasks, created and run from the command line. Its ids and its progress are in the
// database, so a sidecar can complete it if this process dies. Thread: main's. Prints errors to stderr;
// returns exit codes.
#pragma once

#include <cstdint>
#include <string>

#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"

namespace CLI {
class App;
}

namespace rung::cli {

struct BulkOptions {
  bool yes = false, dry_run = false;
  double rate = 0;                      // tasks per second; 0 = unlimited
  std::int64_t limit = 0;               // at most so many tasks; 0 = all that match
  std::string by;                       // of a dry run: what to count by
  std::string watch, stop_on_failures;  // of a redrive, with NewBulk::care
  Care care;
};
void add_care_options(CLI::App& command, BulkOptions& options);
void add_bulk_options(CLI::App& command, BulkOptions& options);

// Stores the ids that match, asks for confirmation (unless --yes), and runs. Sets `asked.filter_text`, `rate`
// and `who`.
int make_bulk(const Common& common, const FilterOptions& filter, const BulkOptions& options, NewBulk asked);

// Runs it until it ends, is paused, or a sidecar has completed it; shows the progress. Ctrl-C pauses it.
int run_bulk(Session& session, Bulk bulk, bool json);

// "cancel: 980 of 1000 done, 15 refused: ..., 5 unchanged".
std::string outcome_of(const Bulk& bulk);

}  // namespace rung::cli
