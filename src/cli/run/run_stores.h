// Database connections of `rung run`. The first one creates or checks the schema; an error that waiting
// cannot fix ends the sidecar. Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/store/store.h"

namespace rung::cli {

class RunStores {
 public:
  // `silence`: as in open_mysql_store(), for the flow. `fatal`: called by any thread. REQUIRES: `clock`
  // outlives it.
  RunStores(StoreOptions options, const Clock& clock, Ms silence,
            std::function<void(const std::string&)> fatal);

  // For the flow: these connections hold locks that others wait for.
  Result<std::unique_ptr<Store>> open();
  // For user queries: nobody waits for their locks, and no caller waits `timeout` or longer.
  Result<std::unique_ptr<Store>> open_reader(Ms timeout);

 private:
  Result<std::unique_ptr<Store>> checked(Result<std::unique_ptr<Store>> store);
  Result<void> prepare(Store& store) const;

  const StoreOptions options_;
  const Clock& clock_;
  const Ms silence_;
  const std::function<void(const std::string&)> fatal_;
  std::mutex mutex_;
  bool ready_ = false;  // guarded by mutex_
};

}  // namespace rung::cli
