// Promises of lateness (late_by): how many deliveries of a queue kept theirs. Instances add what they have
// counted to buckets of five minutes, for the last hour, and of an hour, for the last day.
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
inline EpochMs promise_bucket(EpochMs at, Ms length) { return {at.ms - at.ms % length.count()}; }

// What an instance has counted since its batch before.
struct PromiseBatch {
  struct Change {
    std::string queue;  // or a pattern, or "(other)": bridge::FlowCounts
    PromiseCounts more;
  };
  static constexpr std::size_t kMost = 2000;
  std::vector<Change> changes = {};  // each queue once, at most kMost
  EpochMs at = {};                   // decides the buckets
  // As GateBatch: the latest of each maker is kept, so that repeating it changes nothing.
  std::string maker = {}, id = {};
};

// What the last hour and the last day have; they begin with a bucket, so that the oldest may be cut off.
struct PromiseRow {
  std::string queue;
  PromiseCounts last_hour, last_day;
};

class PromiseStore {
 public:
  virtual ~PromiseStore() = default;

  // Adds up in one statement for all queues.
  virtual Result<void> add_promises(const PromiseBatch& batch) = 0;
  // By queue; those with deliveries in the last day.
  virtual Result<std::vector<PromiseRow>> promises() = 0;
  // Deletes at most `limit` buckets of each length that neither the hour nor the day before `now` needs.
  virtual Result<int> forget_promises(EpochMs now, int limit) = 0;
};

}  // namespace rung
