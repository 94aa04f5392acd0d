// Changes of all tasks that match a filter: bulks. Thread: main's. Prints errors to stderr; returns exit
// codes.
#pragma once

#include <vector>

#include "src/cli/shared/options.h"
#include "src/store/bulks.h"

namespace rung::cli {

// Its filter; "rate", "limit", "canary" and others of its request.
std::vector<Field> bulk_filter(BulkAction action);
std::vector<Field> bulk_fields(BulkAction action);
void add_bulk_options(CLI::App& command, BulkAction action);

// Counts the tasks that match, asks for confirmation (unless --yes), stores their ids, and watches.
// `request`: for POST /v1/bulks; the filter and the fields are added.
int make_bulk(const CLI::App& command, BulkAction action, Json request);

}  // namespace rung::cli
