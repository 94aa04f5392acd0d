// Activity: how many deliveries of a queue failed, were retried and succeeded, by minute, for the last 30
// days. Instances add to it by counts.h. Thread: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "src/core/base/time.h"

namespace rung {

struct ActivityCounts {
  std::int64_t failed = 0;     // first failures and later ones
  std::int64_t retried = 0;    // retries that the broker confirmed
  std::int64_t succeeded = 0;  // deliveries that were reported, or presumed, to have succeeded
  bool operator==(const ActivityCounts&) const = default;
  ActivityCounts& operator+=(const ActivityCounts& other) {
    failed += other.failed;
    retried += other.retried;
    succeeded += other.succeeded;
    return *this;
  }
  ActivityCounts operator-(const ActivityCounts& other) const {
    return {failed - other.failed, retried - other.retried, succeeded - other.succeeded};
  }
};

inline constexpr Ms kActivityMinute{std::chrono::minutes{1}};
inline constexpr Ms kActivityKept{std::chrono::hours{24 * 30}};
// The queue of the sums: a month of all queues is read as fast as that of one.
inline constexpr const char* kAllQueues = "(all)";
// The queue of those that have no counts of their own.
inline constexpr const char* kOtherQueues = "(other)";

struct ActivityRange {
  std::string queue = kAllQueues;
  EpochMs from = {}, until = {};  // begin with a step; without `until`
  Ms step = kActivityMinute;      // whole minutes
};
struct ActivityPoint {
  EpochMs at;  // where its step begins
  ActivityCounts counts;
  bool operator==(const ActivityPoint&) const = default;
};

}  // namespace rung
