// Detects steps of the database's clock by its offset from the machine's boot clock. Thread: the loop's.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "src/bridge/leases/lease_cycle.h"

namespace rung::bridge {

class ClockStep {
 public:
  // The step since the last reading, ms: positive = forward; none: no step.
  std::optional<std::int64_t> see(const ClockReading& read) {
    const Offset now{read.db.us - read.received.us, read.db.us - read.sent.us, read.received};
    const auto before = std::exchange(offset_, now);
    if (!before) return std::nullopt;
    const std::int64_t allowed = kStepUs + (now.at.us - before->at.us) / kDrift;
    const std::int64_t ahead = now.least - before->most, back = now.most - before->least;
    if (ahead <= allowed && -back <= allowed) return std::nullopt;
    return (ahead > 0 ? ahead : back) / 1000;
  }

 private:
  // A larger change between two measurements is a step, not drift ...
  static constexpr std::int64_t kStepUs = 1'000'000;
  // ... which may be a five-hundredth (0.2 %) of the elapsed time.
  static constexpr std::int64_t kDrift = 500;

  struct Offset {  // bounds of database clock minus boot clock, us
    std::int64_t least = 0, most = 0;
    BootUs at;
  };
  std::optional<Offset> offset_;
};

}  // namespace rung::bridge
