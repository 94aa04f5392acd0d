// An answer that many ask for: read anew at most once a second, and less often where reading takes long.
// Those who ask meanwhile wait for it. Thread: any.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>

#include "src/api/json/json.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::http {

class BriefCache {
 public:
  static constexpr Ms kFor{1000};
  // Reading takes at most this share of the time.
  static constexpr int kShare = 10;

  // REQUIRES: `clock` outlives it.
  explicit BriefCache(const Clock& clock) : clock_(clock) {}

  // `read() -> Result<std::string>`. Also after an error it is not read again at once: it may take long.
  template <typename Read>
  Result<std::string> get(const Read& read) {
    const std::lock_guard lock(mutex_);
    const BootMs began = clock_.boot();
    if (!last_ || began >= until_) {
      last_ = read();
      const BootMs ended = clock_.boot();
      until_ = ended + std::max(kFor, (ended - began) * kShare);
    }
    return *last_;
  }

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::optional<Result<std::string>> last_;  // guarded by mutex_
  BootMs until_{0};                          // guarded by mutex_
};

}  // namespace rung::http
