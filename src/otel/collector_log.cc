#include "src/otel/collector_log.h"

#include <chrono>

#include "src/core/base/url.h"
#include "src/io/log.h"

namespace rung::otel {
namespace {

constexpr Ms kQuiet = std::chrono::minutes{1};

}  // namespace

CollectorLog::CollectorLog(const std::string& endpoint, const Clock* clock)
    : endpoint_(hide_password(endpoint)), clock_(clock) {}

bool CollectorLog::may_warn() const {
  return clock_ == nullptr || !warned_at_ || clock_->boot() - *warned_at_ >= kQuiet;
}

void CollectorLog::failing(std::string_view event, const std::string& reason, std::int64_t dropped) {
  if (warned_of_ == event || !may_warn()) return;
  log::warn(event, {{"collector", endpoint_}, {"reason", reason}, {"dropped", dropped - dropped_before_}});
  warned_of_ = event;
  if (clock_ != nullptr) warned_at_ = clock_->boot();
}

void CollectorLog::accepting(std::int64_t dropped) {
  if (!warned_of_.empty()) {
    log::info("trace collector accepts spans again",
              {{"collector", endpoint_}, {"dropped", dropped - dropped_before_}});
  }
  warned_of_ = {};
  dropped_before_ = dropped;
}

}  // namespace rung::otel
