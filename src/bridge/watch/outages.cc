#include "src/bridge/watch/outages.h"

#include <utility>

namespace rung::bridge {

std::optional<StoreJobs::Status> StoreOutage::waits(bool& away, const Error& error) {
  if (!std::exchange(away, true)) ++away_;
  const bool refused = error.kind == Error::Kind::refused;
  const bool turned = std::exchange(refused_, refused) != refused;  // decides whether a start is given up
  const bool news = reasons_.is_news(error.message);
  if (!news && !turned) return std::nullopt;
  return StoreJobs::Status{true, refused, error.message};
}

std::optional<StoreJobs::Status> StoreOutage::goes_on(bool& away) {
  if (!std::exchange(away, false) || --away_ > 0) return std::nullopt;
  reasons_.clear();
  refused_ = false;
  return StoreJobs::Status{};
}

}  // namespace rung::bridge
