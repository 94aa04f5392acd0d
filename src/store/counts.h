// What instances have counted of their deliveries, by queue: promises of lateness and activity. They add it
// every few seconds; one that is killed has not added its last.
//
// Thread, errors: store.h; the rest are values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/activity.h"
#include "src/store/promises.h"

namespace rung {

// What an instance has counted since its batch before.
struct CountBatch {
  struct Change {
    std::string queue;  // or a pattern, or "(other)": bridge::FlowCounts
    PromiseCounts promised = {};
    ActivityCounts activity = {};
  };
  static constexpr std::size_t kMost = 2000;
  std::vector<Change> changes = {};  // each queue once, at most kMost
  EpochMs at = {};                   // decides the buckets
  // As GateBatch: the latest of each maker is kept, so that repeating it changes nothing.
  std::string maker = {}, id = {};
};
ActivityCounts sum_of(const CountBatch& batch);  // for kAllQueues

class CountStore {
 public:
  virtual ~CountStore() = default;

  // Adds up in one transaction, with one statement a table.
  virtual Result<void> add_counts(const CountBatch& batch) = 0;
  // By queue; those with deliveries in the last day.
  virtual Result<std::vector<PromiseRow>> promises() = 0;
  // By time, without steps in which nothing happened.
  virtual Result<std::vector<ActivityPoint>> activity(const ActivityRange& range) = 0;
  // Deletes at most `limit` buckets of each kind that nothing needs any more at `now`.
  virtual Result<int> forget_counts(EpochMs now, int limit) = 0;
};

}  // namespace rung
