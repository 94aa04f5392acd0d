// What instances have counted of their deliveries, by queue: promises of lateness and activity. They add it
// every few seconds; one that is killed has not added its last.
//
// Thread, errors: store.h; the rest are values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung {

// --- promises of lateness (late_by): how many deliveries of a queue kept theirs, in buckets of five minutes,
// for the last hour, and of an hour, for the last day.

// Confirmed deliveries of a queue with a promise.
struct PromiseCounts {
  std::int64_t in_time = 0;
  std::int64_t late = 0;
  std::int64_t gated = 0;  // late, and only because of a gate
  bool operator==(const PromiseCounts&) const = default;
  PromiseCounts& operator+=(const PromiseCounts& other) {
    in_time += other.in_time;
    late += other.late;
    gated += other.gated;
    return *this;
  }
  PromiseCounts operator-(const PromiseCounts& other) const {
    return {in_time - other.in_time, late - other.late, gated - other.gated};
  }
};

inline constexpr Ms kPromiseMinutes{std::chrono::minutes{5}};
inline constexpr Ms kPromiseHour{std::chrono::hours{1}};
inline constexpr Ms kPromiseDay{std::chrono::hours{24}};
// The beginning of the bucket of `at`.
inline EpochMs bucket_of(EpochMs at, Ms length) { return {at.ms - at.ms % length.count()}; }

// What the last hour and the last day have; they begin with a bucket, so that the oldest may be cut off.
struct PromiseRow {
  std::string queue;
  PromiseCounts last_hour, last_day;
};

// --- activity: how many deliveries of a queue failed, were retried and succeeded, by minute, for 30 days.

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
inline ActivityCounts sum_of(const CountBatch& batch) {  // for kAllQueues
  ActivityCounts sum;
  for (const CountBatch::Change& change : batch.changes) sum += change.activity;
  return sum;
}

}  // namespace rung
