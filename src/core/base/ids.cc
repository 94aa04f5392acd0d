#include "src/core/base/ids.h"

#include <algorithm>
#include <charconv>

namespace rung {

std::optional<TaskId> TaskId::parse(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end || value <= 0) return std::nullopt;
  return TaskId{value};
}

TaskId IdSource::next(EpochMs now) {
  const std::int64_t since = std::max<std::int64_t>(now.ms - kIdEpochMs, 0);
  last_ = std::max(last_ + 1, since << 12);
  const std::int64_t ms = last_ >> 12;
  const std::int64_t counter = last_ & 4095;
  return {(ms << 22) | (static_cast<std::int64_t>(node_) << 12) | counter};
}

TaskId IdSource::floor(EpochMs t) { return {std::max<std::int64_t>(t.ms - kIdEpochMs, 0) << 22}; }

}  // namespace rung
