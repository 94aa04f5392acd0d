// How many tasks may go at a limited rate. It saves up one, and what the rate gives in kBurst. Thread: a
// value.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/base/time.h"

namespace rung {

// `per_second` may differ from call to call; 0 = no limit.
class TokenBucket {
 public:
  static constexpr Ms kBurst{100};

  // Empty then.
  explicit TokenBucket(BootMs since = {}) : filled_at_(since) {}

  void fill(double per_second, BootMs now) {
    tokens_ = tokens(per_second, now);
    filled_at_ = now;
  }
  bool has() const { return tokens_ >= 1 - kRounded; }
  // REQUIRES: has().
  void take() { tokens_ -= 1; }
  // A token that was not used.
  void put_back() { tokens_ += 1; }
  // When it has one, as of the last fill().
  BootMs next(double per_second) const {
    if (has()) return filled_at_;
    return filled_at_ + Ms{static_cast<Ms::rep>(std::ceil((1 - tokens_) * 1000 / per_second))};
  }
  bool is_full(double per_second, BootMs now) const {
    return tokens(per_second, now) >= most(per_second) - kRounded;
  }

 private:
  static constexpr double kRounded = 1e-6;
  static double most(double per_second) {
    return 1 + per_second * static_cast<double>(kBurst.count()) / 1000;
  }
  double tokens(double per_second, BootMs now) const {
    if (per_second <= 0) return std::numeric_limits<double>::infinity();
    const auto passed = static_cast<double>((now - filled_at_).count());
    return std::min(tokens_ + per_second * passed / 1000, most(per_second));
  }

  double tokens_ = 0;
  BootMs filled_at_;
};

}  // namespace rung
