// Reads the failures of a queue from the history, and what became of them. Thread: as the store's.
#pragma once

#include <string>

#include "src/api/rules/failure_log.h"
#include "src/api/rules/replay.h"
#include "src/core/base/result.h"
#include "src/store/queries.h"

namespace rung::api {

struct PastFailures {
  FailureLog log;
  ReplayTotals present;  // what happened
  bool cut = false;      // there are more tasks than were asked for: the newest were read
};

// Of the tasks in this queue that were taken in after `since` and have failed. `limit`: the most tasks.
Result<PastFailures> past_failures(QueryStore& store, const std::string& queue, EpochMs since,
                                   std::int64_t limit);

}  // namespace rung::api
