// Promises of lateness (late_by): how many deliveries of a queue kept theirs, in buckets of five minutes, for
// the last hour, and of an hour, for the last day. Instances add to them by counts.h. Thread: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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
// The beginning of the bucket of `at`.
inline EpochMs bucket_of(EpochMs at, Ms length) { return {at.ms - at.ms % length.count()}; }

// What the last hour and the last day have; they begin with a bucket, so that the oldest may be cut off.
struct PromiseRow {
  std::string queue;
  PromiseCounts last_hour, last_day;
};

}  // namespace rung
