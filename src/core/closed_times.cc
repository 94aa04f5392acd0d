#include "src/core/closed_times.h"

#include <algorithm>

namespace rung {

void ClosedTimes::add(EpochMs from, EpochMs to) {
  if (to <= from) return;
  const auto begin = std::ranges::find_if(spans_, [&](const Span& span) { return span.to >= from; });
  auto end = begin;
  for (; end != spans_.end() && end->from <= to; ++end) {
    from = std::min(from, end->from);
    to = std::max(to, end->to);
  }
  spans_.insert(spans_.erase(begin, end), Span{from, to});
  if (spans_.size() > kMost) spans_.erase(spans_.begin());
}

Ms ClosedTimes::between(EpochMs from, EpochMs to) const {
  Ms sum{0};
  for (const Span& span : spans_) sum += std::max(std::min(span.to, to) - std::max(span.from, from), Ms{0});
  return sum;
}

}  // namespace rung
