// Logs when spans stop arriving at the collector, and when they arrive again: one line per change, and at
// most one warning a minute. Thread: one per object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/clock.h"

namespace rung::otel {

class CollectorLog {
 public:
  // `clock`: nullptr = no limit per minute.
  CollectorLog(const std::string& endpoint, const Clock* clock);

  // `event`: a constant. `dropped`: spans so far, in both.
  void failing(std::string_view event, const std::string& reason, std::int64_t dropped);
  void accepting(std::int64_t dropped);

 private:
  bool may_warn() const;

  const std::string endpoint_;
  const Clock* const clock_;
  std::string_view warned_of_;       // the event of this outage; "" = none logged
  std::optional<BootMs> warned_at_;  // the last warning
  std::int64_t dropped_before_ = 0;  // this outage
};

}  // namespace rung::otel
