// Notices that the database's clock was set, by its offset to the machine's boot clock. Thread: the loop's.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "src/bridge/lease_cycle.h"

namespace rung::bridge {

class ClockStep {
 public:
  // By how much it was set since the last reading, ms: forward where positive; none: it was not.
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
  // More than this between two measurements is a step, and no drift ...
  static constexpr std::int64_t kStepUs = 1'000'000;
  // ... of which a clock may have a five-hundredth (0.2 %) of the time that has gone by.
  static constexpr std::int64_t kDrift = 500;

  struct Offset {  // database's clock - boot clock, us: between these two
    std::int64_t least = 0, most = 0;
    BootUs at;
  };
  std::optional<Offset> offset_;
};

}  // namespace rung::bridge
