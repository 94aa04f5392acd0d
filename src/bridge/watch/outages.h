// What to report of an outage of the database.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "src/bridge/base/once_per_name.h"
#include "src/bridge/base/store_jobs.h"

namespace rung::bridge {

inline constexpr std::size_t kMostReasons = 20;  // of one outage: others write them

// Decides what to report of a database outage: each reason once, not once per thread or per try.
// Thread: any, one at a time; several threads must guard it with their own lock.
class StoreOutage {
 public:
  // A job waits for a retry; `away` is its owner's flag, false at first. Returns what to report now, if
  // anything.
  std::optional<StoreJobs::Status> waits(bool& away, const Error& error) {
    if (!std::exchange(away, true)) ++away_;
    const bool refused = error.kind == Error::Kind::refused;
    const bool turned = std::exchange(refused_, refused) != refused;  // decides whether a start is given up
    const bool news = reasons_.is_news(error.message);
    if (!news && !turned) return std::nullopt;
    return StoreJobs::Status{true, refused, error.message};
  }
  // That job is done, or given up.
  std::optional<StoreJobs::Status> goes_on(bool& away) {
    if (!std::exchange(away, false) || --away_ > 0) return std::nullopt;
    reasons_.clear();
    refused_ = false;
    return StoreJobs::Status{};
  }

 private:
  int away_ = 0;
  bool refused_ = false;
  OncePerName reasons_{kMostReasons};
};

}  // namespace rung::bridge
