// How late messages were published: a histogram for /metrics. Thread: the loop's; a copy is a value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "src/core/base/time.h"

namespace rung::bridge {

struct Lateness {
  // Upper bounds of the buckets, in seconds; one more bucket holds later ones.
  static constexpr std::array<double, 11> kSeconds{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600};

  // `late`: the time from a message's due time to the broker's confirm.
  void add(Ms late) {
    const double seconds = static_cast<double>(std::max<std::int64_t>(late.count(), 0)) / 1000;
    const auto bucket = std::ranges::lower_bound(kSeconds, seconds) - kSeconds.begin();
    ++counts[static_cast<std::size_t>(bucket)];
    sum += seconds;
  }

  std::array<std::int64_t, kSeconds.size() + 1> counts{};  // of each bucket alone
  double sum = 0;                                          // seconds
};

}  // namespace rung::bridge
