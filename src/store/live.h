// What has changed lately, for people who watch (GET /v1/events): one statement, by primary keys and the
// newest ids alone, whatever the tables hold.
//
// Thread, errors: store.h; the rest are values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung {

struct LiveQuestion {
  static constexpr std::size_t kMostWatched = 200;  // tasks, by all viewers together
  // Where the answer before ended; by default now, without what was before.
  std::int64_t after_audit = INT64_MAX, after_event = INT64_MAX;
  std::vector<TaskId> watched = {};  // at most kMostWatched
};

struct LiveAnswer {
  static constexpr std::size_t kMost = 100;  // of each kind; more are counted as one
  std::int64_t newest_task = 0, newest_audit = 0, newest_event = 0;
  std::vector<TaskId> changed_by_hand = {};         // in the audit since then
  std::vector<std::string> event_kinds = {};        // retry_events since then
  std::map<TaskId, std::uint32_t> versions = {};    // of the watched tasks
  std::map<std::int64_t, std::int64_t> bulks = {};  // done, by the id of each bulk that has not ended
};

}  // namespace rung
