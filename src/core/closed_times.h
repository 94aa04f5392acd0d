// When a gate was closed, as far as we have seen: spans that do not overlap. Thread: a value.
#pragma once

#include <cstddef>
#include <vector>

#include "src/core/time.h"

namespace rung {

class ClosedTimes {
 public:
  static constexpr std::size_t kMost = 200;  // the oldest spans are forgotten

  // Merges with the spans that it touches.
  void add(EpochMs from, EpochMs to);
  // How much of the time between the two it was closed.
  Ms between(EpochMs from, EpochMs to) const;

 private:
  struct Span {
    EpochMs from, to;
  };
  std::vector<Span> spans_;  // ascending
};

}  // namespace rung
