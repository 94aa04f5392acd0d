// Pauses before a request is sent again: doubled from `first` to `most`, each shortened at random by up to
// half, so that many instances do not ask in step. Thread: one per object.
#pragma once

#include <algorithm>
#include <random>

#include "src/core/base/time.h"

namespace rung::otel {

class RetryDelay {
 public:
  RetryDelay(Ms first, Ms most) : first_(first), most_(most), step_(first) {}

  // More than this no collector gets, whatever its Retry-After says: spans wait in bounded memory meanwhile.
  static constexpr Ms kMostAsked{5 * 60'000};

  // `asked`: the collector's Retry-After, 0 = none.
  Ms next(Ms asked) {
    if (asked > Ms{0}) return std::min(asked, kMostAsked);
    const Ms longest = step_;
    step_ = std::min(step_ * 2, most_);
    return Ms{std::uniform_int_distribution<std::int64_t>(longest.count() / 2, longest.count())(random_)};
  }
  void reset() { step_ = first_; }

 private:
  const Ms first_, most_;
  Ms step_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace rung::otel
