// What to tell of an outage of the database: once for each reason, not once for each thread or each try.
// Thread: none of its own; where several use it, a lock of theirs guards it.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "src/bridge/store_jobs.h"

namespace rung::bridge {

class StoreOutage {
 public:
  // Someone with a job waits to try it again; `away` is theirs, false at first. What to tell now, if
  // anything.
  std::optional<StoreJobs::Status> waits(bool& away, const Error& error);
  // Their job is done, or given up.
  std::optional<StoreJobs::Status> goes_on(bool& away);

 private:
  static constexpr std::size_t kMostReasons = 20;  // told of one outage

  int away_ = 0;
  bool refused_ = false;
  std::set<std::string> told_;
};

}  // namespace rung::bridge
