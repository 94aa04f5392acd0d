// An action on many tasks, made and run from the command line. Its ids and how far it has come stand in the
// database: what ends here in the middle, a sidecar goes on with. Thread: main's. Tells what is wrong on
// stderr; returns exit codes.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "src/cli/command.h"
#include "src/cli/filter.h"
#include "src/cli/task_text.h"

namespace rung::cli {

struct BulkOptions {
  bool yes = false, dry_run = false;
  double rate = 0;  // tasks a second; 0 = as fast as it goes
};
void add_bulk_options(CLI::App& command, BulkOptions& options);

// Freezes the ids that match, asks (or takes --yes), runs. `asked.filter_text`, `rate` and `who` are set
// here.
int make_bulk(const Common& common, const FilterOptions& filter, const BulkOptions& options, NewBulk asked);

// Runs it until it ends, is paused, or a sidecar has done it; shows how far it is. Ctrl-C pauses it.
int run_bulk(Session& session, Bulk bulk, bool json);

// "cancel: 980 done, 15 refused, 5 were so already".
std::string outcome_of(const Bulk& bulk);

}  // namespace rung::cli
