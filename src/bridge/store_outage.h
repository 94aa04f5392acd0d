// Decides what to report of a database outage: each reason once, not once per thread or per try.
// Thread: any, one at a time; several threads must guard it with their own lock.
#pragma once

#include <optional>

#include "src/bridge/outage_reasons.h"
#include "src/bridge/store_jobs.h"

namespace rung::bridge {

class StoreOutage {
 public:
  // A job waits for a retry; `away` is its owner's flag, false at first. Returns what to report now, if
  // anything.
  std::optional<StoreJobs::Status> waits(bool& away, const Error& error);
  // That job is done, or given up.
  std::optional<StoreJobs::Status> goes_on(bool& away);

 private:
  int away_ = 0;
  bool refused_ = false;
  OutageReasons reasons_;
};

}  // namespace rung::bridge
